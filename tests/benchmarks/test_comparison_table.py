"""Numbers, table and options of the comparison with llama.cpp."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine_limits
import pytest
import vs_llama_cpp
from comparison.cells import FULL, QUICK, Cell, Configuration, configurations
from comparison.disturbance import Disturbance
from comparison.footprint import Footprint
from comparison.ratios import Comparison, fastest, fastest_overall
from comparison.report import MachineLimit, footprint_rows, highest_speed, markdown, shown, speed_rows
from comparison.speeds import Speeds

DEFAULT = Configuration(repack=True, flash_attention=True)


def test_ratio_is_the_median_of_the_alternations() -> None:
    disturbed_together = Comparison([10.0, 1.0, 12.0], [5.0, 0.5, 6.0], "higher", 1.9)
    assert (disturbed_together.ratio, disturbed_together.met) == (2.0, True)
    assert Comparison([3.0, 2.0, 8.0], [2.0, 2.0, 2.0], "higher").ratio == 1.5


@pytest.mark.parametrize(
    ("better", "bar", "met"),
    [
        ("higher", 1.5, True),
        ("higher", 1.51, False),
        ("lower", 1.5, True),
        ("lower", 1.49, False),
        ("lower", None, None),
    ],
)
def test_bar(better: Any, bar: float | None, met: bool | None) -> None:
    assert Comparison([3.0], [2.0], better, bar).met is met


def test_alternations_come_in_pairs() -> None:
    with pytest.raises(ValueError):
        _ = Comparison([1.0, 2.0], [1.0], "higher").ratio


def test_fastest_configuration() -> None:
    prefill = {"a": [3.0, 1.0], "b": [1.5, 1.4]}
    decode = {"a": [9.0, 8.0], "b": [4.0, 4.0]}
    assert fastest(prefill) == "a"
    assert fastest_overall([prefill, decode]) == "b"
    with pytest.raises(ValueError, match="no measurement"):
        fastest_overall([])


def test_configurations_are_all_combinations_and_the_default_is_first() -> None:
    found = list(configurations())
    assert len(set(found)) == 4
    assert found[0] == DEFAULT
    assert DEFAULT.name == "repack on, flash attention on"


def test_bars_are_where_they_were_set() -> None:
    bars = {(cell.phase, cell.length, cell.batch): cell.bar for cell in FULL if cell.bar is not None}
    assert bars == {("prefill", 512, 1): 2.0, ("decode", 64, 1): 1.3, ("decode", 512, 1): 1.3, ("decode", 64, 8): 2.0}
    assert set(QUICK) < set(FULL)


def test_names_and_tokens_of_cells() -> None:
    prefill, batch = Cell("prefill", 32), Cell("decode", 64, batch=8)
    assert (prefill.name, prefill.tokens, prefill.repeat) == ("prefill 32 (tokens/s)", 32, 4)
    assert (batch.name, batch.tokens) == ("decode at 64, batch 8 (tokens/s)", 8)


def test_highest_speeds() -> None:
    facts = {"bytes": 900, "kv_cache": [[0.5, None], [2, 25]], "flops": 10, "logit_flops": 280}
    limit = MachineLimit(read_bytes=2000, operations=6000)
    assert highest_speed(Cell("decode", 100), facts, limit) == pytest.approx(2.0)
    assert highest_speed(Cell("decode", 100, batch=11), facts, limit) == pytest.approx(11.0)
    assert highest_speed(Cell("prefill", 32), facts, limit) == pytest.approx(32 * 6000 / 600)


def test_limits_of_a_small_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_limits, "READ_SECONDS", 0.0)
    found = machine_limits.read_bandwidth(2, 1 << 20)
    assert found.keys() == machine_limits.READERS.keys()
    assert all(rate > 0 for rate in found.values())


def test_limits_are_measured_in_a_process_with_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        seen.append((command[2:], env["OMP_NUM_THREADS"], env["OPENBLAS_NUM_THREADS"]))
        return subprocess.CompletedProcess(command, 0, stdout=b'{"threads": 3}')

    monkeypatch.setattr(machine_limits.subprocess, "run", run)
    assert machine_limits.limits(3, (7, 8)) == {"threads": 3}
    assert seen == [(["--child", "--threads", "3", "--megabytes", "7", "8"], "3", "3")]


def speeds() -> Speeds:
    cell = Cell("prefill", 512, bar=2.0)
    return Speeds(
        facts={"flops": 1, "logit_flops": 0, "bytes": 1, "kv_cache": []},
        version="1.2",
        comparisons={cell: Comparison([900.0, 1000.0, 1100.0], [400.0, 400.0, 400.0], "higher", cell.bar)},
        chosen={cell: DEFAULT},
        screened={cell: {DEFAULT.name: 401.0}},
        overall=DEFAULT,
    )


def footprint() -> Footprint:
    def lower(ours: float, peer: float, bar: float | None = None) -> Comparison:
        return Comparison([ours], [peer], "lower", bar)

    return Footprint(
        memory=lower(190 * 2**20, 200 * 2**20, 0.95),
        memory_of={DEFAULT.name: 200.0 * 2**20},
        warm_load=lower(0.25, 0.2, 1.2),
        warm_process=lower(0.5, 0.3),
        cold_load=lower(2.0, 1.0),
        cold_process=lower(2.5, 1.25),
        cold_share=0.125,
        perplexity=lower(20.04, 20.0, 1.005),
        generated_perplexity=None,
    )


def test_table() -> None:
    rows = [
        *speed_rows("some-model", 2, speeds(), MachineLimit(1.0, 5000.0)),
        *footprint_rows("some-model", 2, footprint(), DEFAULT.name),
    ]
    lines = markdown(rows).splitlines()
    assert lines[0] == ("| checkpoint | threads | measurement | modelhost | llama.cpp | ratio | bar | met | limit |")
    assert lines[1] == "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2] == "| some-model | 2 | prefill 512 (tokens/s) | 1000 | 400 | 2.50 | ≥ 2 | yes | 5000 |"
    assert lines[3] == "| some-model | 2 | peak RSS (MiB) | 190 | 200 | 0.95 | ≤ 0.95 | yes |  |"
    assert lines[4] == "| some-model | 2 | load to first token, warm (s) | 0.25 | 0.20 | 1.25 | ≤ 1.2 | **no** |  |"
    assert lines[5] == "| some-model | 2 | process to first token, warm (s) | 0.50 | 0.30 | 1.67 |  |  |  |"
    assert lines[8] == "| some-model | 2 | perplexity, prompt | 20.040 | 20.000 | 1.0020 | ≤ 1.005 | yes |  |"
    assert len(lines) == 9
    with_generated = replace(footprint(), generated_perplexity=Comparison([21.0], [20.0], "lower", 1.005))
    assert [row.measurement for row in footprint_rows("m", 1, with_generated, "")][-1] == "perplexity, generated"


def test_data_has_every_value() -> None:
    [row] = speed_rows("some-model", 2, speeds(), MachineLimit(1.0, 5000.0))
    data = json.loads(json.dumps(row.data()))
    assert data["modelhost"] == [900.0, 1000.0, 1100.0]
    assert (data["ratio"], data["bar"], data["met"], data["better"]) == (2.5, 2.0, True, "higher")
    assert data["configuration"] == DEFAULT.name
    assert data["configurations"] == {DEFAULT.name: 401.0}
    cold = [row.data() for row in footprint_rows("m", 1, footprint(), "") if "cold" in row.measurement]
    assert [one["share_in_page_cache"] for one in cold] == [0.125, 0.125]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(99.96, "tokens/s", "100.0"), (1234.5, "tokens/s", "1234"), (3 << 20, "MiB", "3"), (0.126, "s", "0.13")],
)
def test_digits(value: float, unit: Any, text: str) -> None:
    assert shown(value, unit) == text


def test_options_of_a_full_run() -> None:
    found = vs_llama_cpp.options(["--llama-cpp", "bin"])
    assert found.checkpoints == ["smollm2", "gemma3", "qwen2.5-coder"]
    assert found.threads == sorted({len(os.sched_getaffinity(0)), 1}, reverse=True)
    setup = vs_llama_cpp.setup_of(found)
    assert (setup.cells, setup.alternations, setup.batch, setup.windows) == (FULL, 5, 8, None)
    assert setup.length(batched=False) >= 1024 + setup.steps
    assert 64 + setup.steps <= setup.length(batched=True) < 512
    assert setup.text.stat().st_size > 10_000


def test_options_of_a_quick_run() -> None:
    found = vs_llama_cpp.options(["--llama-cpp", "bin", "--quick"])
    assert found.checkpoints == ["smollm2"]
    assert len(found.threads) == 1
    setup = vs_llama_cpp.setup_of(found)
    assert (setup.cells, setup.alternations, setup.cold_loads, setup.generated_windows) == (QUICK, 3, 1, 0)
    named = vs_llama_cpp.options(["--llama-cpp", "bin", "--quick", "--threads", "1", "4", "--alternations", "9", "x"])
    assert (named.checkpoints, named.threads, named.alternations) == (["x"], [1, 4], 9)


def test_llama_cpp_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vs_llama_cpp.options([])
    assert "--llama-cpp" in capsys.readouterr().err


def test_checkpoint_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    assert vs_llama_cpp.checkpoint(str(tmp_path / "model.gguf")) == tmp_path / "model.gguf"


def test_a_checkpoint_that_does_not_exist() -> None:
    with pytest.raises(SystemExit, match=r"'nosuch' is no file and none of the checkpoints .*smollm2"):
        vs_llama_cpp.checkpoint("nosuch")


def test_heading_names_machine_and_sides() -> None:
    facts = {
        "machine": "2 x Some CPU",
        "limits": [
            {
                "threads": 2,
                "read_bytes_per_second": {str(machine_limits.LARGE): {"best": 26e9}},
                "operations_per_second": {"best": 1.9e12},
            }
        ],
        "modelhost": {"m": {"backend": "torch", "dtype": "float32"}},
        "llama.cpp": "0.5",
        "taken_by_others": 0.07,
    }
    assert vs_llama_cpp.heading(facts) == (
        "modelhost (backend torch, float32) and llama.cpp 0.5 on 2 x Some CPU: 2 threads read 26.0 GB/s and compute "
        "1.90 TFLOP/s. Other programs took 7% of the processors' time.\n"
    )
    assert "can be relied on" in vs_llama_cpp.heading({**facts, "taken_by_others": 0.11})


def test_share_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([(10.0, 100.0, 50.0), (14.0, 106.0, 53.0)])
    monkeypatch.setattr(Disturbance, "_now", lambda *_: next(moments))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert Disturbance().share() == pytest.approx((6 - 3) / (4 * 2))
    monkeypatch.setattr(Disturbance, "_now", lambda *_: None)
    assert Disturbance().share() is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux counts the time of all programs in /proc/stat")
def test_time_of_all_programs_includes_our_own() -> None:
    now = Disturbance._now()
    assert now is not None
    _, busy, own = now
    assert 0 < own < busy
