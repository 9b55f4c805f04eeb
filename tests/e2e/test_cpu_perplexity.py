"""Perplexity of what the cpu backend's bfloat16 mode loses, against its float32 mode, which equals the reference."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from pathlib import Path

import pytest

from modelhost import LLM, SamplingParams

TEXT = Path(__file__).parents[2] / "benchmarks" / "perplexity.txt"
TOKENS = 1000
BOUNDS = {"smollm2": 0.003, "gemma3": 0.006, "qwen2.5-coder": 0.003}
slow = pytest.mark.slow


def perplexity(path: Path, dtype: str) -> float:
    """Of the first tokens of the text, each scored with those before it in its half."""
    llm = LLM(str(path), backend="cpu", dtype=dtype, max_model_len=TOKENS // 2 + 1, max_num_seqs=2)
    tokens = llm.get_tokenizer().encode(TEXT.read_text())[:TOKENS]
    windows = [tokens[: TOKENS // 2], tokens[TOKENS // 2 :]]
    losses = []
    for output in llm.generate(windows, SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)):
        scored = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
        losses += [-row[token].logprob for token, row in scored]
    assert len(losses) == TOKENS - 2
    return exp(sum(losses) / len(losses))


@pytest.mark.parametrize("name", BOUNDS)
def test_bfloat16(name: str, checkpoint_file: Callable[[str], Path]) -> None:
    exact = perplexity(checkpoint_file(name), "float32")
    rounded = perplexity(checkpoint_file(name), "bfloat16")
    difference = rounded / exact - 1
    print(f"{name}: {exact:.4f} in float32, {rounded:.4f} in bfloat16: {difference:+.3%}")
    assert abs(difference) < BOUNDS[name]
