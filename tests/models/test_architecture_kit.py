"""The architecture kit passes a right model and finds what is wrong with a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modelhost_llama.llama import Llama

from modelhost.api import ConfigError, RequestError, WeightError
from modelhost.api.model import CausalLM
from modelhost.loading import open_model
from modelhost.reference import ReferenceBackend
from modelhost.testing.architecture import CHECKS, ArchitectureCase, Reference
from modelhost.testing.checkpoints import registry_for, write_random_checkpoint
from modelhost.testing.tiny import GraphRunner

from .broken_models import BrokenBackend, ExtraParameter, WrongBase

CONFIG: dict[str, Any] = {"vocab_size": 31, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2}
CONFIG |= {"num_attention_heads": 2, "rope_theta": 100.0}
LLAMA = "LlamaForCausalLM"
CHUNKS = {"chunks_of_1", "chunks_of_3", "chunks_of_7"}


def llama(checkpoint: Path) -> Reference:
    return GraphRunner(open_model(checkpoint, registry_for(Llama, LLAMA)), ReferenceBackend()).logits


def failures(model: type[CausalLM] = Llama, backend: Callable[[], Any] = ReferenceBackend) -> set[str]:
    case = ArchitectureCase(LLAMA, config=CONFIG, model=model, reference=llama, backend=backend)
    failed = set()
    for check in CHECKS:
        try:
            case.run(check)
        except AssertionError:
            failed.add(check)
    return failed


def test_right_model_passes() -> None:
    assert failures() == set()


def test_wrong_model() -> None:
    assert failures(WrongBase) == {"prefill", "decode", "greedy"}


def test_positions_counted_within_a_step() -> None:
    def change(graph: Any, inputs: dict[str, Any], run: Any) -> Any:
        return run(inputs | {"positions": np.arange(len(inputs["positions"]), dtype=np.int32)})

    assert failures(backend=lambda: BrokenBackend(change)) == {"decode", "batch", "greedy", *CHUNKS}


def test_last_bits_that_depend_on_the_step() -> None:
    def change(graph: Any, inputs: dict[str, Any], run: Any) -> Any:
        return {"logits": run(inputs)["logits"] * np.float32(1 + 1e-6 * len(inputs["token_ids"]))}

    assert failures(backend=lambda: BrokenBackend(change)) == {"batch", *CHUNKS}


def test_wrong_pass() -> None:
    def change(graph: Any, inputs: dict[str, Any], run: Any) -> Any:
        factor = 1.01 if "add_rms_norm" in {node.op.name for node in graph.nodes} else 1.0
        return {"logits": run(inputs)["logits"] * np.float32(factor)}

    assert failures(backend=lambda: BrokenBackend(change)) == {"prefill", "decode", "optimized"}


def test_inexact_backend_may_differ_in_the_last_bits() -> None:
    def change(graph: Any, inputs: dict[str, Any], run: Any) -> Any:
        return {"logits": run(inputs)["logits"] * np.float32(1 + 1e-6 * len(inputs["token_ids"]))}

    case = ArchitectureCase(
        LLAMA, config=CONFIG, model=Llama, reference=llama, backend=lambda: BrokenBackend(change), exact=False
    )
    for check in CHECKS:
        case.run(check)


def test_missing_tensor(tmp_path: Path) -> None:
    checkpoint = write_random_checkpoint(tmp_path / "llama", LLAMA, Llama, CONFIG)
    case = ArchitectureCase(LLAMA, checkpoint=checkpoint, model=ExtraParameter, reference=llama)
    with pytest.raises(WeightError, match=r"1 missing\.\nmissing:\n  extra\.weight of shape \(3, 12\)\n"):
        case.run("weights")


def test_unexpected_tensor(tmp_path: Path) -> None:
    checkpoint = write_random_checkpoint(tmp_path / "llama", LLAMA, ExtraParameter, CONFIG)
    case = ArchitectureCase(LLAMA, checkpoint=checkpoint, model=Llama, reference=llama)
    with pytest.raises(WeightError, match=r"1 unexpected\.\nunexpected:\n  extra\.weight of shape \(3, 12\)\n"):
        case.run("weights")


def test_unused_parameter() -> None:
    case = ArchitectureCase(LLAMA, config=CONFIG, model=ExtraParameter, reference=llama)
    with pytest.raises(AssertionError, match=r"^parameters that no op uses: extra\.weight$"):
        case.run("weights")


def test_another_architecture_reads_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = write_random_checkpoint(tmp_path / "llama", LLAMA, Llama, CONFIG)
    case = ArchitectureCase("MistralForCausalLM", checkpoint=checkpoint, reference=llama)
    with pytest.raises(AssertionError) as caught:
        case.run("weights")
    assert str(caught.value) == f"{checkpoint} is read by LlamaForCausalLM, not by MistralForCausalLM"


def test_failure_says_where_and_by_how_much() -> None:
    def reference(_: Path) -> Reference:
        def logits(prompt: Any, continuation: Any) -> Any:
            rows = np.ones((len(prompt), 31), np.float32)
            rows[2, 5] = -4
            return rows

        return logits

    def ones(graph: Any, inputs: dict[str, Any], run: Any) -> Any:
        return {"logits": np.ones((len(inputs["token_ids"]), 31), np.float32)}

    case = ArchitectureCase(
        LLAMA, config=CONFIG, model=Llama, reference=reference, backend=lambda: BrokenBackend(ones), prompts=[[1, 2, 3]]
    )
    with pytest.raises(AssertionError) as caught:
        case.run("prefill")
    assert str(caught.value) == (
        "prompt of 3: logit 5 of token 2 differs by 1.25 of the largest logit, more than 0.0001"
    )


def test_expected_failures_become_strict_xfails() -> None:
    case = ArchitectureCase(LLAMA, config=CONFIG, model=Llama, reference=llama, expected_failures={"greedy": "ties"})
    checks = {check.id: check for check in case.checks()}
    assert tuple(checks) == CHECKS
    (mark,) = checks["greedy"].marks
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "ties", "strict": True})
    assert not any(check.marks for name, check in checks.items() if name != "greedy")


def test_unknown_expected_failure() -> None:
    with pytest.raises(ConfigError) as caught:
        ArchitectureCase(LLAMA, config=CONFIG, reference=llama, expected_failures={"gredy": "ties"})
    assert str(caught.value) == (
        "expected_failures: no check is called 'gredy'; the checks are weights, prefill, decode, chunks_of_1, "
        "chunks_of_3, chunks_of_7, batch, optimized, greedy"
    )


@pytest.mark.parametrize("given", [{}, {"config": CONFIG, "checkpoint": Path("x")}])
def test_checkpoint_or_config(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^an ArchitectureCase needs either a checkpoint or a config$"):
        ArchitectureCase(LLAMA, reference=llama, **given)


def test_installed_architecture_by_id() -> None:
    case = ArchitectureCase(LLAMA, config=CONFIG, reference=llama)
    for check in ("weights", "prefill"):
        case.run(check)


def test_runner_places_are_reused() -> None:
    case = ArchitectureCase(LLAMA, config=CONFIG, reference=llama)
    runner = GraphRunner(case.source, ReferenceBackend(), places=2, max_length=16)
    first = runner.logits([1, 2, 3], [4, 5])
    for _ in range(3):
        runner.logits(list(range(12)))
        np.testing.assert_array_equal(runner.logits([1, 2, 3], [4, 5]), first)


def test_runner_refuses_steps_that_would_corrupt_its_cache() -> None:
    case = ArchitectureCase(LLAMA, config=CONFIG, reference=llama)
    runner = GraphRunner(case.source, ReferenceBackend(), places=1, max_length=8)
    first = runner.start(3)
    runner.step((first, [1, 2, 3]))
    with pytest.raises(RequestError) as caught:
        runner.step((first, [4] * 6))
    assert str(caught.value) == (
        "6 tokens do not fit a sequence of 3; each step takes at least one, and the runner has room for 8"
    )
    with pytest.raises(RequestError, match=r"^0 tokens do not fit a sequence of 3; "):
        runner.step((first, []))
    runner.start(2)
    with pytest.raises(RequestError) as caught:
        runner.step((first, [4]))
    assert str(caught.value) == "a later sequence has taken the place of this one; the runner has 1 places"


def test_many_and_long_prompts() -> None:
    prompts = [[token % 31 for token in range(length)] for length in (90, *range(1, 12))]
    case = ArchitectureCase(LLAMA, config=CONFIG, reference=llama_with_room, prompts=prompts, generated=3)
    for check in ("prefill", "batch"):
        case.run(check)


def llama_with_room(checkpoint: Path) -> Reference:
    source = open_model(checkpoint, registry_for(Llama, LLAMA))
    return GraphRunner(source, ReferenceBackend(), optimized=False, max_length=200).logits
