"""Projections whose halves gate each other, computed together with their activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import host_target
from modelhost_cpu.settings import CpuSettings

from modelhost.api.backend import CacheLayout, Graph, Parameter, Weight
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.testing.graphs import tracing

from .quantized_weights import random_weight
from .test_linear_int8 import rows_of

Float = npt.NDArray[np.float32]
needs_tiles = pytest.mark.skipif(not host_target().has("amx-bf16"), reason="this machine has no AMX with bfloat16")
TOKENS = 70


@dataclass
class Perceptron:
    """Two projections with a gated activation between them; the rows come from a table.

    Attributes:
        encoding: of the matrices.
        hidden: columns of a row.
        inner: columns between the projections.
        apart: make the result of the activation an output, so that it must be computed apart.
    """

    encoding: str = "q8_0"
    hidden: int = 64
    inner: int = 96
    bias: bool = False
    kind: ops.elementwise.Activation = "silu"
    threads: int = 1
    apart: bool = False

    def __post_init__(self) -> None:
        hidden, inner = self.hidden, self.inner
        weights = {
            "table": Weight.of_values("table", rows_of(TOKENS, hidden)),
            "first": random_weight(self.encoding, 2 * inner, hidden, seed=1),
            "last": random_weight(self.encoding, hidden, inner, seed=2),
            "bias": Weight.of_values("bias", rows_of(1, 2 * inner, seed=3)[0]),
        }
        graph = Graph("perceptron")
        with tracing(graph):
            step = Step(graph, "bfloat16")
            table, first, last = (Parameter(weights[name].shape, name=name) for name in ("table", "first", "last"))
            x = ops.embed(step.token_ids, table, dtype="bfloat16")
            both = ops.linear(x, first, Parameter((2 * inner,), name="bias") if self.bias else None)
            between = ops.gated_activation(*ops.split(both, sizes=(inner, inner)), kind=self.kind)
            graph.outputs = {"y": ops.linear(between, last, None)}
            if self.apart:
                graph.outputs |= {"between": between}
        backend = CpuBackend(dtype="bfloat16", settings=CpuSettings(threads=self.threads))
        self.executable = backend.compile(graph, lambda p: weights[p.name], CacheLayout(16, {}))
        self.inputs = list(graph.inputs)

    def _step(self, tokens: npt.ArrayLike, generated: npt.ArrayLike) -> dict[str, npt.NDArray[np.int32]]:
        numbers = np.asarray(tokens, np.int32)
        flags = np.broadcast_to(generated, numbers.shape).astype(np.int32)
        return {**dict.fromkeys(self.inputs, numbers), "generated": flags}

    def __call__(self, tokens: npt.ArrayLike, generated: npt.ArrayLike = False) -> Float:
        """The results of some tokens."""
        return self.executable.run(self._step(tokens, generated))["y"]

    @property
    def together(self) -> bool:
        """Whether the activation is computed with the projection."""
        return any("gated_amx" in op.detail for op in self.executable.profile(self._step([0], False)))


ALL = np.arange(TOKENS)


def require_the_same(**options: object) -> None:
    """Bit for bit what the activation makes of the rows apart, for prompt rows, generated ones, and both."""
    together, apart = Perceptron(**options), Perceptron(**options, apart=True)  # type: ignore[arg-type]
    assert together.together
    assert not apart.together
    for flags in (False, True, np.random.default_rng(3).random(TOKENS) < 0.3):
        np.testing.assert_array_equal(together(ALL, flags), apart(ALL, flags))
    for count in (1, 16, 33):
        np.testing.assert_array_equal(together(ALL[:count]), apart(ALL)[:count])


@needs_tiles
@pytest.mark.parametrize("encoding", ["q5_0", "q4_1", "f16", "bf16", "f32"])
def test_each_encoding(encoding: str) -> None:
    require_the_same(encoding=encoding)


@needs_tiles
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("bias", [False, True])
def test_each_activation(kind: str, bias: bool) -> None:
    require_the_same(kind=kind, bias=bias)


@needs_tiles
@pytest.mark.parametrize(("hidden", "inner"), [(1, 32), (45, 64), (1000, 32), (33, 1120)])
def test_any_number_of_columns(hidden: int, inner: int) -> None:
    require_the_same(encoding="bf16", hidden=hidden, inner=inner)


@needs_tiles
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_columns(threads: int) -> None:
    require_the_same(hidden=256, inner=512, threads=threads)


@needs_tiles
@pytest.mark.parametrize(("hidden", "inner"), [(64, 48), (1280, 64)])
def test_other_shapes_are_computed_apart(hidden: int, inner: int) -> None:
    perceptron = Perceptron("bf16", hidden, inner)
    assert not perceptron.together
    np.testing.assert_array_equal(perceptron(ALL), Perceptron("bf16", hidden, inner, apart=True)(ALL))
