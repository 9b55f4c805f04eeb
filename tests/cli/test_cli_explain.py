"""``modelhost explain``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from .conftest import Cli, install, run_process, write_checkpoint

REFERENCE = ("--backend", "reference")


def test_text(cli: Cli, tiny: str) -> None:
    result = cli("explain", tiny, *REFERENCE)
    assert (result.code, result.err) == (0, "")
    assert f"model: {tiny}/ (safetensors)\narchitecture: LlamaForCausalLM (modelhost-llama " in result.out
    assert "  chosen       reference (modelhost 0.1.0): asked for by name\n" in result.out
    rows = [line.split() for line in result.out.splitlines()]
    assert ["embed", "1", "native"] in rows
    assert ["full", "1", "all", "64"] in rows
    assert any(row[:2] == ["f32", "12"] for row in rows)
    assert "graph forward" not in result.out


def test_json_counts_the_ops_of_the_optimised_graph(cli: Cli, tiny: str) -> None:
    result = cli("explain", tiny, *REFERENCE, "--json")
    data = json.loads(result.out)
    ops = {use["op"]: use for use in data["ops"]}
    assert ops["linear"]["count"] == 5, "q, k and v are one projection, gate and up another"
    assert {use["tier"] for use in data["ops"]} <= {"native", "decomposed"}
    assert data["parameters"] == [
        {
            "encoding": "f32",
            "native": False,
            "tensors": 12,
            "values": data["parameters"][0]["values"],
            "encoded": 4 * data["parameters"][0]["values"],
            "resident": 4 * data["parameters"][0]["values"],
        }
    ]
    assert data["caches"] == [{"group": "full", "layers": 1, "window": None, "bytes_per_token": 64}]
    assert data["backend"]["candidates"][0]["verdict"] == "chosen"
    assert "graph" not in data


def test_graph(cli: Cli, tiny: str) -> None:
    result = cli("explain", tiny, *REFERENCE, "--graph")
    assert "graph forward\n  input token_ids: int32[T]\n" in result.out
    data = json.loads(cli("explain", tiny, *REFERENCE, "--graph", "--json").out)
    assert data["graph"] in result.out


def test_no_memory_is_needed_to_explain(cli: Cli, tiny: str) -> None:
    assert cli("plan", tiny, *REFERENCE, "--memory-bytes", "100K").code == 1
    assert cli("explain", tiny, *REFERENCE, "--memory-bytes", "100K").code == 0


def test_every_encoding_has_a_row(cli: Cli, checkpoint_file: Callable[[str], Path]) -> None:
    data = json.loads(cli("explain", str(checkpoint_file("smollm2")), *REFERENCE, "--json").out)
    assert {use["encoding"]: use["tensors"] for use in data["parameters"]} == {"q4_1": 210, "q8_0": 1, "f32": 61}
    assert sum(use["encoded"] for use in data["parameters"]) == 96576768


def test_tensors_that_do_not_match(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "m", num_hidden_layers=2)
    result = cli("explain", str(model), *REFERENCE)
    assert result.code == 1
    assert "model.layers.1.input_layernorm.weight" in result.err


PARTIAL = """
from modelhost.api import Backend, hookimpl
from modelhost.reference import ReferenceBackend

API = (1, 0)


class WithoutFusion(ReferenceBackend):
    def native(self, op):
        return op.name != "add_rms_norm" and super().native(op)


class WithoutLinear(ReferenceBackend):
    def native(self, op):
        return op.name != "linear" and super().native(op)


@hookimpl
def modelhost_backends():
    yield Backend("without-fusion", target="partial_backends:WithoutFusion", encodings=("f32",))
    yield Backend("without-linear", target="partial_backends:WithoutLinear")
"""


def test_op_that_the_backend_lacks(tiny: str, tmp_path: Path) -> None:
    install(tmp_path, "partial-backends", "partial_backends", PARTIAL)
    env = {"PYTHONPATH": str(tmp_path)}
    result = run_process("explain", tiny, "--backend", "without-fusion", "--json", env=env)
    assert result.code == 0
    data = json.loads(result.out)
    uses = {use["op"]: use for use in data["ops"]}
    assert uses["add_rms_norm"] == {
        "op": "add_rms_norm",
        "count": 1,
        "tier": "decomposed",
        "kernels": {"add": 1, "rms_norm": 1},
    }
    assert [use["native"] for use in data["parameters"]] == [True]
    assert (
        "decomposed into 1 add, 1 rms_norm" in run_process("explain", tiny, "--backend", "without-fusion", env=env).out
    )

    result = run_process("explain", tiny, "--backend", "without-linear", env=env)
    assert result.code == 1
    assert ["linear", "5", "missing"] in [line.split() for line in result.out.splitlines()]
    assert "cannot run graph 'forward': it has no kernel for linear" in result.err
