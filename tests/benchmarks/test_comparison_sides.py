"""What the comparison with llama.cpp does besides llama.cpp: our side, the workers, the page cache."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from comparison.libllama import Library, LlamaError
from comparison.modelhost_side import ModelHost
from comparison.page_cache import evict, read_whole, resident_share
from comparison.perplexity import perplexity
from comparison.worker import Worker, WorkerError

from tests.tiny_model import write_tiny_model

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SETTINGS = {"backend": "reference", "max_model_len": 64, "max_num_seqs": 2, "enable_prefix_caching": False}
PROMPT = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))


@pytest.fixture(scope="module")
def side(model: str) -> ModelHost:
    side = ModelHost()
    side.load(model, SETTINGS, PROMPT)
    return side


class Direct:
    """Calls a side in this process, as :class:`Worker` does in another."""

    def __init__(self, side: ModelHost) -> None:
        self.side = side

    def call(self, request: str, **arguments: Any) -> Any:
        return getattr(self.side, request)(**json.loads(json.dumps(arguments)))


def test_facts_of_our_side(side: ModelHost) -> None:
    facts = side.describe()
    assert (facts["backend"], facts["dtype"], facts["vocab_size"]) == ("reference", "float32", 260)
    hidden, wide, heads = 24, 40, (4 + 2 * 2) * 6 * 24 + 24 * 24
    layer = heads + 3 * hidden * wide
    assert facts["flops"] == 2 * 2 * layer
    assert facts["logit_flops"] == 2 * 260 * hidden
    assert facts["bytes"] == 4 * (2 * (layer + 2 * hidden) + 260 * hidden + hidden)
    assert facts["kv_cache"] == [[2 * 2 * 2 * 6 * 4, None]]


def test_measurements_of_our_side(side: ModelHost) -> None:
    assert side.prefill(PROMPT, 3) > 0
    assert side.decode([PROMPT, PROMPT], 4) > 0
    assert (side.memory() or 0) > 1 << 20


def test_windows_cover_the_text_and_begin_as_the_tokenizer_does(side: ModelHost, tmp_path: Path) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    (tmp_path / "text").write_text(text)
    windows = side.windows(str(tmp_path / "text"), 11)
    tokenizer = side._served.tokenizer
    assert tokenizer is not None
    start = tokenizer.encode("")
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert {len(window) for window in windows} == {11}
    assert all(window[: len(start)] == start for window in windows)
    covered = [token for window in windows for token in window[len(start) :]]
    assert covered == tokens[: len(covered)]
    assert len(tokens) - len(covered) < 11


def test_perplexity_is_that_of_the_logits(side: ModelHost) -> None:
    import numpy as np

    window = [5, 9, 200, 31, 7, 7, 100]
    inner, rows = side._engine.executable, []

    class Watched:
        weight_bytes = inner.weight_bytes

        def run(self, inputs: Any) -> Any:
            rows.append((inputs["generated"].tolist(), inner.run(inputs)["logits"].astype(np.float64)))
            return {"logits": rows[-1][1].astype(np.float32)}

    side._engine.executable = Watched()
    try:
        found = [perplexity(Direct(side), [window], generated=generated) for generated in (False, True)]
        assert isinstance(side._engine.executable, Watched)
    finally:
        side._engine.executable = inner
    assert [generated for generated, _ in rows] == [[0] * 7, [1] * 7]
    logits = rows[0][1][:-1]
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(6), window[1:]]
    assert found == pytest.approx([math.exp(losses.mean())] * 2, rel=1e-6)


def test_worker_measures_in_a_process_of_its_own(model: str) -> None:
    with Worker("modelhost_side", {"MODELHOST_PLUGIN_CACHE": "0"}) as worker:
        worker.call("prepare")
        loaded = worker.call("load", model=model, settings=SETTINGS, prompt=PROMPT)
        assert 0 < loaded["seconds"] < loaded["at"] - worker.started
        assert worker.call("describe")["vocab_size"] == 260
        assert worker.call("decode", prompts=[PROMPT, PROMPT], steps=2) > 0
        with pytest.raises(WorkerError, match=r"^prefill: RequestError: the prompt is empty"):
            worker.call("prefill", prompt=[], repeat=1)
        assert worker.call("prefill", prompt=PROMPT, repeat=1) > 0
    with pytest.raises(WorkerError, match="closed"):
        worker.call("describe")


def test_worker_that_dies_says_why() -> None:
    with Worker("not_a_module") as worker, pytest.raises(WorkerError, match=r"(?s)ended with code 1.*not_a_module"):
        worker.call("load")


def test_answers_wait_until_threads_rest(tmp_path: Path) -> None:
    script = """
import sys, threading, time
from comparison.worker import serve, WorkerError

def spin(seconds):
    def work():
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
    threading.Thread(target=work, daemon=True).start()
    print("this is no answer")

serve({"spin": spin, "cpu": time.process_time})
"""
    (tmp_path / "spinning.py").write_text(script)
    worker = subprocess.Popen(
        [sys.executable, str(tmp_path / "spinning.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        text=True,
    )
    requests = [{"request": "spin", "arguments": {"seconds": 0.4}}, {"request": "cpu", "arguments": {}}]
    out, _ = worker.communicate("".join(json.dumps(one) + "\n" for one in requests))
    spun, used = [json.loads(line) for line in out.splitlines()]
    assert spun == {"result": None}
    assert used["result"] > 0.2


def test_folder_without_llama_cpp(tmp_path: Path) -> None:
    with pytest.raises(LlamaError, match=r"libllama\.\w+ is not there; give the folder build/bin of what build_llama"):
        Library(tmp_path)


def test_llama_cpp_is_built_at_the_version_whose_structures_are_declared() -> None:
    script = (BENCHMARKS / "build_llama_cpp.sh").read_text()
    [version] = re.findall(r"^VERSION=(\S+)$", script, re.MULTILINE)
    assert f"llama-cpp-python {version}" in (BENCHMARKS / "comparison" / "libllama.py").read_text()


def test_build_script_wants_a_folder() -> None:
    done = subprocess.run(["sh", str(BENCHMARKS / "build_llama_cpp.sh")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


def test_page_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * (1 << 20))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    read_whole(file)
    assert resident_share(file) == 1.0
    assert evict(file) == resident_share(file)
