"""What the cpu backend's bfloat16 mode loses in perplexity, against its float32 mode, which equals the reference.

Measured over 1,000 tokens of ``benchmarks/perplexity.txt`` on a CPU with AMX:

============= ======= ========================= =============================
checkpoint    float32 bfloat16, prompt kernels  bfloat16, generation kernels
============= ======= ========================= =============================
smollm2       34.346  34.381 (+0.10 %)          34.379 (+0.09 %)
gemma3        56.386  56.540 (+0.27 %)          55.741 (-1.14 %)
qwen2.5-coder 47.382  47.410 (+0.06 %)          47.443 (+0.13 %)
============= ======= ========================= =============================

The bounds are two to three times that. A CPU without matrix instructions has one kind of kernels only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from pathlib import Path

import pytest

from modelhost import LLM, SamplingParams

TEXT = Path(__file__).parents[2] / "benchmarks" / "perplexity.txt"
TOKENS = 1000
BOUNDS = {"smollm2": (0.003, 0.003), "gemma3": (0.006, 0.025), "qwen2.5-coder": (0.003, 0.004)}
"""Relative difference that is allowed, of prompt kernels and of generation kernels."""
CASES = [pytest.param(name, marks=() if name == "smollm2" else pytest.mark.slow) for name in BOUNDS]


def perplexity(path: Path, dtype: str, *, deterministic: bool = False) -> float:
    """Of the first tokens of the text, each scored with those before it in its half.

    Args:
        deterministic: compute the text by the kernels of generated tokens.
    """
    length = TOKENS // 2
    llm = LLM(str(path), backend="cpu", dtype=dtype, deterministic=deterministic, max_model_len=length + 1)
    tokens = llm.get_tokenizer().encode(TEXT.read_text())[:TOKENS]
    losses = [loss for start in (0, length) for loss in _losses(llm, tokens[start : start + length])]
    assert len(losses) == TOKENS - 2
    return exp(sum(losses) / len(losses))


def _losses(llm: LLM, window: list[int]) -> Iterator[float]:
    """Of all tokens but the first, in nats."""
    params = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
    [output] = llm.generate([{"prompt_token_ids": window}], params)
    found = output.prompt_logprobs or []
    return (-(row or {})[token].logprob for token, row in zip(window[1:], found[1:], strict=True))


@pytest.mark.parametrize("name", CASES)
def test_bfloat16(name: str, checkpoint_file: Callable[[str], Path]) -> None:
    path = checkpoint_file(name)
    exact = perplexity(path, "float32")
    prompt = perplexity(path, "bfloat16") / exact - 1
    generation = perplexity(path, "bfloat16", deterministic=True) / exact - 1
    print(f"{name}: {exact:.4f}, prompt kernels {prompt:+.3%}, generation kernels {generation:+.3%}")
    assert abs(prompt) < BOUNDS[name][0]
    assert abs(generation) < BOUNDS[name][1]
