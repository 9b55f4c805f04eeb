"""Write the golden greedy continuations of the real checkpoints: transformers, float32, dequantised weights.

    pip install accelerate
    python tests/e2e/make_goldens.py

For every prompt the golden has its tokens, the greedy continuation, and at each place the five best log-probabilities.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).parent
CHECKPOINTS = ("smollm2", "gemma3", "qwen2.5-coder")
TOKENS = 48
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea, there lived",
    "Q: What is 17 + 25?\nA:",
    "Les trois principes fondamentaux de la physique sont",
    "1, 2, 4, 8, 16, 32,",
    "The following is a list of the planets of the solar system, from the one closest to the sun:\n\n1. Mercury\n2.",
    "SELECT name, age FROM users WHERE",
]


def fetch(name: str) -> Path:
    script = HERE.parent.parent / "scripts" / "fetch_checkpoint.py"
    return Path(
        subprocess.run([sys.executable, str(script), name], check=True, capture_output=True, text=True).stdout.strip()
    )


@torch.inference_mode()
def continuation(model: torch.nn.Module, prompt: list[int]) -> dict[str, object]:
    """Greedy tokens after ``prompt`` and the best alternatives at each place."""
    tokens, best = [], []
    cache, feed = None, prompt
    for _ in range(TOKENS):
        result = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        values, ids = result.logits[0, -1].float().log_softmax(-1).topk(5)
        tokens.append(int(ids[0]))
        best.append([[int(i), round(float(v), 5)] for i, v in zip(ids, values, strict=True)])
        feed = [tokens[-1]]
    return {"prompt_token_ids": prompt, "token_ids": tokens, "best": best}


def main() -> None:
    for name in sys.argv[1:] or CHECKPOINTS:
        path = fetch(name)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        cases = [{"prompt": p, **continuation(model, tokenizer(p)["input_ids"])} for p in PROMPTS]
        text = json.dumps({"checkpoint": path.name, "cases": cases}, separators=(",", ":"))
        (HERE / "goldens" / f"{name}.json").write_text(text.replace('{"prompt"', '\n{"prompt"') + "\n")
        print(name, [tokenizer.decode(case["token_ids"])[:40] for case in cases])


if __name__ == "__main__":
    main()
