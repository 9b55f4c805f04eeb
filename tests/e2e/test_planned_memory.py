"""The peak memory that ``modelhost plan`` states is that of a process that uses all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONTEXT, SEQUENCES, STEP = 384, 4, 512
OPTIONS = ("--max-model-len", str(CONTEXT), "--max-num-seqs", str(SEQUENCES), "--max-num-batched-tokens", str(STEP))
USE_EVERYTHING = f"""
import sys
from modelhost import LLM, SamplingParams
from modelhost.bench import peak_memory

llm = LLM(sys.argv[1], max_model_len={CONTEXT}, max_num_seqs={SEQUENCES}, max_num_batched_tokens={STEP})
prompts = [[1000 + 17 * number + place for place in range({CONTEXT} - 8)] for number in range({SEQUENCES})]
outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))
assert all(len(output.outputs[0].token_ids) == 8 for output in outputs)
print(peak_memory())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell the memory of a process")
@pytest.mark.parametrize("checkpoint", ["smollm2", "gemma3"])
def test_peak_memory_is_as_planned(checkpoint_file: Callable[[str], Path], checkpoint: str) -> None:
    path = str(checkpoint_file(checkpoint))
    planned = json.loads(run("-m", "modelhost", "plan", path, *OPTIONS, "--json"))["peak_resident"]
    run("-c", USE_EVERYTHING, path)  # compiles, which takes memory that a later start does not need
    assert int(run("-c", USE_EVERYTHING, path)) == pytest.approx(planned, rel=0.05)


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
