"""The conformance kit notices what it is there to notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from modelhost.api import ConfigError, UnsupportedError
from modelhost.api.backend import CacheLayout, Graph, Operation, Parameter, Weight
from modelhost.graph import ops
from modelhost.graph.operation import operation
from modelhost.graph.tensor import Tensor
from modelhost.reference import KERNELS, ReferenceBackend
from modelhost.reference.backend import ReferenceExecutable
from modelhost.reference.settings import ReferenceSettings
from modelhost.testing.backend import ConformanceError, backend_checks, checks_of


def _run(name: str, make: Callable[..., Any] = ReferenceBackend, *, batch_invariant: bool = True) -> None:
    checks = {check.name: check for check in checks_of(make, "cpu", "float32", 2e-6, batch_invariant)}
    checks[name]()


@operation()
def a_new_op(x: Tensor) -> Tensor:
    """An op that the kit has no case for."""
    return x.like()


def test_a_new_op_without_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    _run("every op has a case")
    monkeypatch.setitem(ops.OPS, "a_new_op", a_new_op)
    with pytest.raises(ConformanceError, match=r"^no case covers a_new_op; add one to modelhost\.testing\.op_cases$"):
        _run("every op has a case")


class _Altered(ReferenceBackend):
    """The reference with something changed."""

    without: frozenset[str] = frozenset()
    change: Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]] = staticmethod(lambda results: results)

    def native(self, op: Operation[..., Any]) -> bool:
        return op.name not in self.without

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> ReferenceExecutable:
        executable = super().compile(graph, load, cache)
        run = executable.run
        executable.run = lambda inputs: self.change(run(inputs))  # type: ignore[method-assign, assignment]
        return executable


def test_a_wrong_value() -> None:
    class Wrong(_Altered):
        change = staticmethod(lambda results: {name: array * np.float32(1.5) for name, array in results.items()})

    with pytest.raises(ConformanceError) as error:
        _run("linear[5x7 with bias]", Wrong)
    text = str(error.value)
    assert text.startswith(
        "linear[5x7 with bias] in float32, step 0 of 1 tokens: "
        "output 'output.0' is off by 0.5 of the largest value, allowed 2e-06; at (0, "
    )


def test_a_value_that_is_not_a_number() -> None:
    class Wrong(_Altered):
        change = staticmethod(lambda results: {name: array * np.float32("nan") for name, array in results.items()})

    with pytest.raises(ConformanceError, match=r"is off by nan"):
        _run("add[two]", Wrong)


def test_a_wrong_shape() -> None:
    class Wrong(_Altered):
        change = staticmethod(lambda results: {name: array[None] for name, array in results.items()})

    with pytest.raises(ConformanceError, match=r"output 'output.0' has shape \(1, 1, 7\), the op's rule says \(1, 7\)"):
        _run("add[two]", Wrong)


def test_a_wrong_dtype() -> None:
    class Wrong(_Altered):
        change = staticmethod(lambda results: {name: array.astype(np.float64) for name, array in results.items()})

    with pytest.raises(ConformanceError, match=r"output 'output.0' is float64 \(1, 7\), wanted float32 \(1, 7\)"):
        _run("add[two]", Wrong)


def test_results_that_depend_on_the_batch() -> None:
    class Wrong(_Altered):
        change = staticmethod(
            lambda results: {n: a + np.float32(1e-7) * np.float32(len(a)) for n, a in results.items()}
        )

    with pytest.raises(ConformanceError, match=r"sequence 0 in a batch against alone: .* allowed 0;"):
        _run("alone and in a batch[plain]", Wrong)
    _run("alone and in a batch[plain]", Wrong, batch_invariant=False)


class _ByRow(ReferenceBackend):
    """The reference with other results where ``other(inputs)`` is true, one truth for each row."""

    other: Callable[[Mapping[str, np.ndarray]], np.ndarray]

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> ReferenceExecutable:
        executable = super().compile(graph, load, cache)
        run = executable.run

        def altered(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            logits, other = run(inputs)["logits"], self.other(inputs)[inputs["logit_rows"]]
            return {"logits": np.where(other[:, None], logits * np.float32(1 + 2**-20), logits)}

        executable.run = altered  # type: ignore[method-assign]
        return executable


INVARIANCE = ("chunked prompt[plain]", "recomputed answer[plain]", "alone and in a batch[plain]")


@pytest.mark.parametrize("check", INVARIANCE)
def test_results_may_depend_on_the_origin_of_the_token(check: str) -> None:
    class Right(_ByRow):
        other = staticmethod(lambda inputs: inputs["generated"] == 1)

    _run(check, Right)


@pytest.mark.parametrize("check", INVARIANCE[1:])
def test_results_that_depend_on_the_origin_of_other_tokens(check: str) -> None:
    class Wrong(_ByRow):
        other = staticmethod(lambda inputs: np.full(len(inputs["generated"]), inputs["generated"].any()))

    with pytest.raises(ConformanceError, match=r"is off by .* allowed 0;"):
        _run(check, Wrong)


@pytest.mark.parametrize("check", INVARIANCE[:2])
def test_results_that_depend_on_how_many_tokens_of_the_sequence_are_in_the_step(check: str) -> None:
    class Wrong(_ByRow):
        @staticmethod
        def other(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
            counts = np.diff(inputs["sequence_starts"])
            return np.repeat(counts == 1, counts)

    with pytest.raises(ConformanceError, match=r"is off by .* allowed 0;"):
        _run(check, Wrong)


def test_ops_without_a_kernel_are_decomposed() -> None:
    class Few(_Altered):
        without = frozenset({"add_rms_norm", "gated_activation"})

    _run("add_rms_norm[weight offset]", Few)
    _run("decoder[plain]", Few)


def test_an_op_with_neither_kernel_nor_decomposition() -> None:
    class Few(_Altered):
        without = frozenset({"soft_cap"})

    with pytest.raises(UnsupportedError, match=r"it has no kernel for soft_cap, and these ops have no decomposition"):
        _run("soft_cap[small cap]", Few)


def test_wrong_accounting() -> None:
    class Wrong(ReferenceBackend):
        def resident_bytes(self, parameter: Parameter, encoding: str, encoded_bytes: int) -> int:
            return encoded_bytes // 2

    with pytest.raises(ConformanceError, match=r"^weight_bytes of the executable is .*, the sum of resident_bytes"):
        _run("weight memory[tied and windowed]", Wrong)


def test_a_workspace_smaller_than_the_arena() -> None:
    class Wrong(ReferenceBackend):
        def workspace_bytes(self, graph: Graph, sizes: Mapping[str, int]) -> int:
            return 4 * sizes["T"]

    with pytest.raises(
        ConformanceError, match=r"^workspace_bytes of a step of 512 tokens is 2048, its tensors alone take"
    ):
        _run("workspace memory", Wrong)


def test_results_that_share_memory() -> None:
    buffer = np.zeros((64, 65), np.float32)

    def reuse(results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        buffer[: len(results["logits"])] = results["logits"]
        return {"logits": buffer[: len(results["logits"])]}

    class Wrong(_Altered):
        change = staticmethod(reuse)

    with pytest.raises(ConformanceError, match=r"^results of a step after the next step"):
        _run("results stay", Wrong)


def test_a_backend_that_takes_anything() -> None:
    def make(**arguments: object) -> ReferenceBackend:
        return ReferenceBackend()

    with pytest.raises(ConformanceError, match=r"^the backend must refuse 'abacus' with UnsupportedError"):
        _run("refuses an unknown device", make)
    with pytest.raises(ConformanceError, match=r"^the backend must refuse 'int3' with UnsupportedError"):
        _run("refuses an unknown dtype", make)


def test_a_refusal_that_names_nothing() -> None:
    def make(**arguments: object) -> ReferenceBackend:
        raise UnsupportedError("no")

    with pytest.raises(ConformanceError, match=r"^the refusal of 'abacus' must name it, got: no$"):
        _run("refuses an unknown device", make)


class _AlteredStates(ReferenceBackend):
    """The reference with something done to its states before every step."""

    change: Callable[[np.ndarray, Mapping[str, np.ndarray]], None]

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> ReferenceExecutable:
        executable = super().compile(graph, load, cache)
        run, states = executable.run, [executable.constants[state] for state in graph.states.values()]

        def altered(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            for state in states:
                self.change(state, inputs)
            return run(inputs)

        executable.run = altered  # type: ignore[method-assign]
        return executable


RECURRENT = ("causal_convolution[7 channels, 4 taps, bias and silu]", "gated_delta_rule[shared keys]")


@pytest.mark.parametrize("case", RECURRENT)
def test_new_sequences_that_start_from_what_they_read(case: str) -> None:
    class Wrong(_AlteredStates):
        """Feigns tokens before the first."""

        def compile(self, graph: Graph, load: Any, cache: CacheLayout) -> ReferenceExecutable:
            executable = super().compile(graph, load, cache)
            run = executable.run
            executable.run = lambda inputs: run(  # type: ignore[method-assign]
                {**inputs, "context_lengths": inputs["context_lengths"] + np.int32(1)}
            )
            return executable

        change = staticmethod(lambda state, inputs: None)

    with pytest.raises(ConformanceError, match=r"step 1 of 38 tokens: output 'output.0' is off by"):
        _run(case, Wrong)


@pytest.mark.parametrize("case", RECURRENT)
def test_states_that_are_written_where_they_were_read(case: str) -> None:
    class Wrong(_AlteredStates):
        @staticmethod
        def change(state: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
            state[inputs["read_slots.recurrent"]] *= np.float32(1.1)

    with pytest.raises(ConformanceError, match=r"is off by"):
        _run(case, Wrong)


def test_snapshots_that_are_lost() -> None:
    class Wrong(_AlteredStates):
        """Right as long as no state is read twice."""

        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.left: list[int] = []

        def change(self, state: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
            state[self.left] = 7.0
            moved = inputs["read_slots.recurrent"] != inputs["write_slots.recurrent"]
            moved &= inputs["context_lengths"] > np.diff(inputs["sequence_starts"])
            self.left = inputs["read_slots.recurrent"][moved].tolist()

    with pytest.raises(ConformanceError, match=r"step 6 of 10 tokens: output 'output.0' is off by"):
        _run("gated_delta_rule[one head]", Wrong)


def test_expected_failures_become_strict_xfails() -> None:
    parameters = backend_checks(ReferenceBackend, expected_failures={"add[two]": "no addition yet"})
    marked = {parameter.id: parameter.marks for parameter in parameters if parameter.marks}
    assert list(marked) == ["add[two]"]
    assert marked["add[two]"][0].kwargs == {"reason": "no addition yet", "strict": True}


def test_expected_failures_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"^expected_failures names checks that do not exist: addd\[two\]$"):
        backend_checks(ReferenceBackend, expected_failures={"addd[two]": "misspelt"})


def test_settings_are_handed_over_as_the_host_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    construct = ReferenceBackend.__init__

    def record(self: ReferenceBackend, **arguments: Any) -> None:
        seen.append(arguments["settings"])
        construct(self, **arguments)

    monkeypatch.setattr(ReferenceBackend, "__init__", record)
    for settings in (None, {"deterministic": True}):
        checks = {one.id: one.values[0] for one in backend_checks(ReferenceBackend, settings=settings)}
        checks["free memory"]()
        checks["refuses an unknown device"]()
    assert seen == [None] * 2 + [ReferenceSettings(deterministic=True)] * 2


def test_settings_that_the_backend_does_not_take() -> None:
    with pytest.raises(ConfigError, match=r"^unknown key settings\.threads"):
        backend_checks(ReferenceBackend, settings={"threads": 2})


def test_settings_of_a_backend_that_no_plugin_declares() -> None:
    with pytest.raises(
        ValueError, match=r"^settings are given, and no installed plugin declares a backend with target"
    ):
        backend_checks(_Altered, settings={})


def test_checks_have_unique_names() -> None:
    names = [parameter.id for parameter in backend_checks(ReferenceBackend)]
    assert len(names) == len(set(names)) > 100
    assert {name.partition("[")[0] for name in names}.issuperset(set(ops.OPS) & set(KERNELS))
