"""Conformance kit for kernel backends.

In the tests of a backend's package::

    import pytest
    from modelhost.testing.backend import backend_checks
    from modelhost_example.backend import ExampleBackend

    @pytest.mark.parametrize("check", backend_checks(ExampleBackend, device="cpu", dtype="float32"))
    def test_conformance(check):
        check()

Every op of :data:`modelhost.graph.ops.OPS` is compared with the NumPy reference over odd shapes, then whole graphs,
batches against single sequences, chunks against whole prompts, answers that are computed again against answers that
were generated, the memory accounting and the refusals. An op for which the backend has no kernel is decomposed, as it
is when a model runs. Where an executable chooses tokens too, that is compared with sorts and sums in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from modelhost.api import UnsupportedError
from modelhost.api.backend import (
    DType,
    Executable,
    Graph,
    KernelBackend,
    LogitOps,
    Operation,
    SamplingExecutable,
    bind_symbols,
    evaluate,
    plan_arena,
)
from modelhost.api.model import trace
from modelhost.graph.ops import OPS
from modelhost.graph.passes import lower

from .arrays import ConformanceError, RandomWeights, require_close
from .logit_ops import LOGIT_CHECKS
from .op_cases import OpCase, op_cases
from .paged_steps import Chunk, PagedSteps
from .parameters import parametrize
from .settings import settings_of
from .small_decoder import VARIANTS, SmallDecoder, Variant, decoder_graph

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Results = dict[str, npt.NDArray[np.float32]]

__all__ = ["TOLERANCES", "BackendCheck", "ConformanceError", "backend_checks", "checks_of"]

TOLERANCES: dict[DType, float] = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""Allowed difference of one op from the reference, relative to the largest value of the result.

The inputs are exact in every dtype, so what remains is rounding. Products and sums of half precision are accumulated in
float32; the result is rounded once, and at most two intermediates are (the activation before it meets the other
factor, the attention weights): half a unit in the last place each, allowed one unit of the largest value (2 ** -10 for
float16, 2 ** -7 for bfloat16). In float32 the order of up to 576 additions differs: 16 units (2 ** -23 each).
"""
_WHOLE_GRAPH = 4
"""Whole graphs are allowed this many times the tolerance of one op: the errors of some forty ops add up at random."""

Factory = Callable[..., KernelBackend]


@dataclass(frozen=True, slots=True)
class BackendCheck:
    """One check. Calling it runs it.

    Attributes:
        name: what ``expected_failures`` refers to.
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Run the check.

        Raises:
            ConformanceError: the backend does not pass.
        """
        self.run()


def backend_checks(
    make_backend: Factory,
    *,
    device: str = "cpu",
    dtype: DType = "float32",
    tolerance: float | None = None,
    batch_invariant: bool = False,
    settings: Mapping[str, Any] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> list[Any]:
    """All checks as parameters for ``pytest.mark.parametrize``.

    Args:
        make_backend: the target of the backend's record, called with ``device``, ``dtype`` and ``settings``.
        tolerance: of one op, see :data:`TOLERANCES`; whole graphs are allowed four times as much.
        batch_invariant: the backend promises that a token's results are bit-identical alone and in any batch, however
            its sequence is cut into steps, as long as it is of the prompt or generated in all of them.
        settings: such as ``{"threads": 2}``; the backend gets them as the host hands them over, see
            :func:`modelhost.testing.settings.settings_of`.
        expected_failures: name of a check to the reason why it fails. Such a check must fail.

    Raises:
        ValueError: ``expected_failures`` names a check that does not exist, or ``settings`` are given and no installed
            plugin has ``make_backend`` as a target.
        ConfigError: the backend's settings model refuses ``settings``.
    """
    allowed = TOLERANCES[dtype] if tolerance is None else tolerance
    given = None if settings is None else settings_of(make_backend, settings)
    checks = checks_of(make_backend, device, dtype, allowed, batch_invariant, given)
    return parametrize({check.name: check for check in checks}, expected_failures)


def checks_of(
    make_backend: Factory,
    device: str,
    dtype: DType,
    tolerance: float,
    batch_invariant: bool,
    settings: object | None = None,
) -> list[BackendCheck]:
    """All checks. See :func:`backend_checks`; ``settings`` are handed to the backend as they are."""
    subject = _Subject(make_backend, device, dtype, tolerance, batch_invariant, settings)
    checks = {"every op has a case": subject.every_op_has_a_case}
    checks |= {case.name: partial(subject.op, case) for case in op_cases()}
    for op in OPS.values():
        if op.decompose is not None:
            checks[f"decomposition of {op.name}"] = partial(subject.decomposition, op)
    for variant in VARIANTS:
        checks[f"decoder[{variant.name}]"] = partial(subject.decoder, variant)
        checks[f"chunked prompt[{variant.name}]"] = partial(subject.chunked, variant)
        checks[f"recomputed answer[{variant.name}]"] = partial(subject.recomputed, variant)
        checks[f"alone and in a batch[{variant.name}]"] = partial(subject.batched, variant)
        checks[f"weight memory[{variant.name}]"] = partial(subject.weight_memory, variant)
    checks |= {name: partial(subject.logit_ops, check) for name, check in LOGIT_CHECKS.items()}
    checks |= {
        "workspace memory": subject.workspace_memory,
        "free memory": subject.free_memory,
        "results stay": subject.results_stay,
        "inputs stay": subject.inputs_stay,
        "executables are independent": subject.independent,
        "refuses an unknown device": subject.refuses_device,
        "refuses an unknown dtype": subject.refuses_dtype,
    }
    return [BackendCheck(name, run) for name, run in checks.items()]


_DECODER_STEPS = (
    (Chunk(0, 0, 9), Chunk(1, 0, 1)),
    (Chunk(0, 9, 10), Chunk(2, 0, 21), Chunk(1, 1, 6)),
    (Chunk(0, 10, 11), Chunk(1, 6, 7), Chunk(2, 21, 22), Chunk(3, 0, 3)),
    (Chunk(2, 22, 30), Chunk(0, 11, 12), Chunk(3, 3, 4)),
)
_PAGING = PagedSteps(vocabulary=Variant.vocabulary)
_LONG_PROMPTS = PagedSteps(vocabulary=Variant.vocabulary, prompt=21)
"""The same with prompts so long that of :data:`_DECODER_STEPS` only the tokens of one sequence are generated."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The backend under test and its checks."""

    make: Factory
    device: str
    dtype: DType
    tolerance: float
    batch_invariant: bool
    settings: object | None = None

    def backend(self) -> KernelBackend:
        return self.make(device=self.device, dtype=self.dtype, settings=self.settings)

    def every_op_has_a_case(self) -> None:
        missing = sorted(set(OPS.values()) - {case.op for case in op_cases()}, key=lambda op: op.name)
        if missing:
            names = ", ".join(op.name for op in missing)
            raise ConformanceError(f"no case covers {names}; add one to modelhost.testing.op_cases")

    def op(self, case: OpCase) -> None:
        backend = self.backend()
        self._compare_op(case, backend, backend.native)

    def decomposition(self, op: Operation[..., Any]) -> None:
        """The op as it runs on a backend that has no kernel for it."""
        backend = self.backend()
        for case in op_cases():
            if case.op is op:
                self._compare_op(case, backend, lambda other: other is not op and backend.native(other))

    def _compare_op(self, case: OpCase, backend: KernelBackend, native: Callable[[Operation[..., Any]], bool]) -> None:
        graph = lower(case.graph(self.dtype), native=native, backend=backend.name)
        weights = RandomWeights(case.encodings)
        executable = backend.compile(graph, weights, case.paging.layout(graph))
        reference = _reference(case.graph("float32"), weights, case.paging)
        for index, chunks in enumerate(case.steps):
            what = f"{case.name} in {self.dtype}, step {index} of {_tokens(chunks)} tokens"
            inputs = case.paging.inputs(graph, chunks)
            results = executable.run(inputs)
            _require_shapes(graph, inputs, results, what)
            require_close(results, reference.run(inputs), self.tolerance, what)

    def decoder(self, variant: Variant) -> None:
        executable, graph, weights = self._compiled(variant)
        reference = _reference(trace(SmallDecoder(variant), "float32"), weights, _PAGING)
        for index, chunks in enumerate(_DECODER_STEPS):
            inputs = _PAGING.inputs(graph, chunks, _last_rows(chunks))
            what = f"decoder {variant.name!r} in {self.dtype}, step {index}"
            require_close(executable.run(inputs), reference.run(inputs), _WHOLE_GRAPH * self.tolerance, what)

    def chunked(self, variant: Variant) -> None:
        """A prompt in one chunk, in several, and token by token."""
        whole = self._rows(variant, [(Chunk(0, 0, 13),)], _LONG_PROMPTS)
        for cuts in ((0, 5, 6, 13), tuple(range(14))):
            what = f"decoder {variant.name!r}: a prompt cut at {cuts} against the whole prompt"
            require_close(self._rows(variant, _cut(cuts), _LONG_PROMPTS), whole, self._batch_tolerance, what)

    def recomputed(self, variant: Variant) -> None:
        """An answer computed again together with its prompt, or as drafts, against the same generated token by token.

        The prompt has 8 tokens.
        """
        generated = self._rows(variant, _cut((0, *range(8, 14))), _PAGING)
        for cuts in ((0, 13), (0, 5, 10, 13), (0, 8, 9, 13)):
            what = f"decoder {variant.name!r}: prompt and answer cut at {cuts} against an answer token by token"
            require_close(self._rows(variant, _cut(cuts), _PAGING), generated, self._batch_tolerance, what)

    def batched(self, variant: Variant) -> None:
        """Every sequence of a mixed batch, of prompt tokens and generated ones, against the same sequence alone."""
        for paging in (_PAGING, _LONG_PROMPTS):
            mixed = self._rows(variant, _DECODER_STEPS, paging)
            for sequence in range(4):
                own = [tuple(c for c in chunks if c.sequence == sequence) for chunks in _DECODER_STEPS]
                alone = self._rows(variant, [chunks for chunks in own if chunks], paging)
                what = f"decoder {variant.name!r}: sequence {sequence} in a batch against alone"
                require_close({name: mixed[name] for name in alone}, alone, self._batch_tolerance, what)

    @property
    def _batch_tolerance(self) -> float:
        return 0.0 if self.batch_invariant else _WHOLE_GRAPH * self.tolerance

    def weight_memory(self, variant: Variant) -> None:
        executable, graph, weights = self._compiled(variant)
        asked = [parameter for parameter, _ in weights.loaded]
        if sorted(p.name for p in asked) != sorted(graph.parameters):
            raise ConformanceError("compile must load every parameter of the graph exactly once")
        backend = self.backend()
        said = {p.name: backend.resident_bytes(p, w.encoding, w.nbytes) for p, w in weights.loaded}
        if executable.weight_bytes != sum(said.values()):
            raise ConformanceError(
                f"weight_bytes of the executable is {executable.weight_bytes}, "
                f"the sum of resident_bytes over its parameters {sum(said.values())}"
            )

    def workspace_memory(self) -> None:
        """At least the planned arena, and growing with the step."""
        backend = self.backend()
        graph = decoder_graph(VARIANTS[0], backend, RandomWeights().encoding_of)
        small, large = (_PAGING.sizes(graph, tokens) for tokens in (1, 512))
        said = backend.workspace_bytes(graph, large)
        arena = plan_arena(graph, large).size
        if said < arena or said <= backend.workspace_bytes(graph, small):
            raise ConformanceError(f"workspace_bytes of a step of 512 tokens is {said}, its tensors alone take {arena}")

    def free_memory(self) -> None:
        free = self.backend().free_memory()
        if not isinstance(free, int) or free <= 0:
            raise ConformanceError(f"free_memory must be a positive number of bytes, got {free!r}")

    def results_stay(self) -> None:
        """Arrays that a step returned do not change in the next one."""
        executable, graph, _ = self._compiled(VARIANTS[0])
        first = executable.run(_PAGING.inputs(graph, (Chunk(0, 0, 7),)))
        copies = {name: array.copy() for name, array in first.items()}
        executable.run(_PAGING.inputs(graph, (Chunk(1, 0, 7),)))
        require_close(first, copies, 0.0, "results of a step after the next step")

    def inputs_stay(self) -> None:
        executable, graph, _ = self._compiled(VARIANTS[0])
        inputs = _PAGING.inputs(graph, (Chunk(0, 0, 7), Chunk(1, 0, 2)))
        copies = {name: array.copy() for name, array in inputs.items()}
        executable.run(inputs)
        changed = [name for name, array in inputs.items() if (array != copies[name]).any()]
        if changed:
            raise ConformanceError(f"run changed its inputs {', '.join(changed)}")

    def independent(self) -> None:
        """Executables of one backend have caches of their own."""
        backend = self.backend()
        pair = [self._compiled(VARIANTS[0], backend) for _ in range(2)]
        (first, graph, _), (second, _, _) = pair
        later = _PAGING.inputs(graph, (Chunk(0, 7, 8),))
        first.run(_PAGING.inputs(graph, (Chunk(0, 0, 7),)))
        alone = first.run(later)
        second.run(_PAGING.inputs(graph, (Chunk(3, 0, 40),)))
        require_close(first.run(later), alone, 0.0, "a step after another executable ran")

    def logit_ops(self, check: Callable[[LogitOps], None]) -> None:
        """An executable that does not choose tokens passes."""
        executable, _, _ = self._compiled(VARIANTS[0])
        if isinstance(executable, SamplingExecutable):
            check(executable)

    def refuses_device(self) -> None:
        self._refuses("abacus", device="abacus", dtype=self.dtype)

    def refuses_dtype(self) -> None:
        self._refuses("int3", device=self.device, dtype="int3")

    def _refuses(self, word: str, **arguments: str) -> None:
        try:
            self.make(settings=self.settings, **arguments)
        except UnsupportedError as error:
            if word not in str(error):
                raise ConformanceError(f"the refusal of {word!r} must name it, got: {error}") from error
            return
        raise ConformanceError(f"the backend must refuse {word!r} with UnsupportedError, but was constructed")

    def _compiled(
        self, variant: Variant, backend: KernelBackend | None = None
    ) -> tuple[Executable, Graph, RandomWeights]:
        backend = backend or self.backend()
        weights = RandomWeights()
        graph = decoder_graph(variant, backend, weights.encoding_of)
        return backend.compile(graph, weights, _PAGING.layout(graph)), graph, weights

    def _rows(self, variant: Variant, steps: Iterable[Sequence[Chunk]], paging: PagedSteps) -> Results:
        """Logits of every token, by sequence and position."""
        executable, graph, _ = self._compiled(variant)
        rows: Results = {}
        for chunks in steps:
            logits = executable.run(paging.inputs(graph, chunks))["logits"]
            rows |= zip(_places(chunks), logits, strict=True)
        return rows


def _require_shapes(graph: Graph, inputs: Mapping[str, npt.NDArray[np.int32]], results: Results, what: str) -> None:
    sizes = bind_symbols(graph, inputs)
    for name, tensor in graph.outputs.items():
        wanted = tuple(evaluate(dim, sizes) for dim in tensor.shape)
        if results[name].shape != wanted:
            raise ConformanceError(
                f"{what}: output {name!r} has shape {results[name].shape}, the op's rule says {wanted}"
            )


def _reference(graph: Graph, weights: RandomWeights, paging: PagedSteps) -> Executable:
    from modelhost.reference import ReferenceBackend

    return ReferenceBackend().compile(graph, RandomWeights(weights.encodings), paging.layout(graph))


def _cut(places: Sequence[int]) -> list[tuple[Chunk, ...]]:
    """Steps of one sequence that end at ``places``, of which the first is 0."""
    return [(Chunk(0, start, end),) for start, end in pairwise(places)]


def _places(chunks: Sequence[Chunk]) -> Iterator[str]:
    return (f"{chunk.sequence}:{position}" for chunk in chunks for position in range(chunk.start, chunk.end))


def _tokens(chunks: Sequence[Chunk]) -> int:
    return sum(chunk.end - chunk.start for chunk in chunks)


def _last_rows(chunks: Sequence[Chunk]) -> list[int]:
    ends = [_tokens(chunks[: index + 1]) for index in range(len(chunks))]
    return [end - 1 for end in ends]
