"""Mixtures of experts in every way that products are computed, against float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import Isa, Target, host_target
from modelhost_cpu.settings import CpuSettings

from modelhost.api.backend import CacheLayout, DType, Executable, Graph, Parameter, Weight
from modelhost.api.step import Step
from modelhost.graph import ops
from modelhost.testing.graphs import tracing

from .quantized_weights import PLAIN, bfloat16_values, random_blocks, weight_of
from .test_linear_amx import nearest, rounded
from .test_linear_int8 import TIERS_HERE, quantized

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
EXPERTS, TOKENS = 6, 150


def stacked(encoding: str, shape: tuple[int, int, int], seed: int) -> Weight:
    """Matrices of random blocks, of magnitudes that keep the sums near one."""
    if encoding in PLAIN:
        values = bfloat16_values(np.random.default_rng(seed).standard_normal(shape) * shape[-1] ** -0.5)
        if encoding == "f32":
            return Weight.of_values("weight", values)
        blocks = (
            values.astype(np.float16).view(np.uint8)
            if encoding == "f16"
            else values.view(np.uint8).reshape(-1, 4)[:, 2:]
        )
        width = blocks.size // (shape[0] * shape[1] * shape[2])
        return weight_of(encoding, np.ascontiguousarray(blocks).reshape(*shape, width))
    return weight_of(encoding, random_blocks(encoding, shape[:2], shape[2], seed))


@dataclass
class Mixture:
    """The op compiled by the backend; the rows and the scores of the experts come from tables."""

    gate: Weight
    up: Weight
    down: Weight
    top_k: int = 2
    dtype: DType = "bfloat16"
    settings: CpuSettings = field(default_factory=CpuSettings)
    gate_limit: float | None = None
    up_limit: float | None = None

    def __post_init__(self) -> None:
        generator = np.random.default_rng(5)
        self.x = bfloat16_values(generator.standard_normal((TOKENS, self.gate.shape[2])))
        scores = generator.standard_normal((TOKENS, EXPERTS)) + np.linspace(0, 2, EXPERTS)
        scores[:, 1] = -9  # an expert that nobody wants
        self.scores = bfloat16_values(scores)
        self.executable = self._compile()

    def _compile(self) -> Executable:
        graph, names = Graph("experts"), ("gate", "up", "down")
        weights = {name: getattr(self, name) for name in names}
        with tracing(graph):
            step = Step(graph, self.dtype)
            x, scores = (
                ops.embed(step.token_ids, Parameter(table.shape, name=name), dtype=self.dtype)
                for name, table in (("x", self.x), ("scores", self.scores))
            )
            factors, ids = ops.route(scores, None, top_k=self.top_k)
            matrices = [Parameter(weights[name].shape, name=name) for name in names]
            limits = {"gate_limit": self.gate_limit, "up_limit": self.up_limit}
            graph.outputs = {"y": ops.experts(x, factors, ids, *matrices, kind="silu", **limits)}
        self.inputs = list(graph.inputs)
        weights |= {"x": Weight.of_values("x", self.x), "scores": Weight.of_values("scores", self.scores)}
        backend = CpuBackend(dtype=self.dtype, settings=self.settings)
        return backend.compile(graph, lambda parameter: weights[parameter.name], CacheLayout(16, {}))

    def __call__(self, tokens: npt.ArrayLike, generated: npt.ArrayLike) -> Float:
        """The results of some tokens."""
        numbers = np.asarray(tokens, np.int32)
        flags = np.broadcast_to(generated, numbers.shape).astype(np.int32)
        return self.executable.run({**dict.fromkeys(self.inputs, numbers), "generated": flags})["y"]

    def expected(self, tokens: npt.NDArray[np.int64], generated: bool = False) -> Double:
        """The same in float64, with operands rounded as the backend rounds them."""
        tiles = not generated and self._target.has("amx-bf16") and self.dtype != "float32"
        gate, up, down = (w.astype(np.float64) for w in (self._values(each, tiles) for each in self._matrices))
        scores = np.exp(self.scores.astype(np.float64))
        scores /= scores.sum(-1, keepdims=True)
        results = np.zeros((len(tokens), self.x.shape[1]))
        for result, token in zip(results, tokens, strict=True):
            row = self.x[token]
            for expert in np.argsort(-scores[token], kind="stable")[: self.top_k]:
                gates = gate[expert] @ self._rounded(row, self.gate, tiles)
                ups = up[expert] @ self._rounded(row, self.up, tiles)
                gates = gates if self.gate_limit is None else np.minimum(gates, self.gate_limit)
                ups = ups if self.up_limit is None else np.clip(ups, -self.up_limit, self.up_limit)
                hidden = (gates * (0.5 + 0.5 * np.tanh(gates / 2)) * ups).astype(np.float32)
                result += scores[token, expert] * (down[expert] @ self._rounded(hidden, self.down, tiles))
        return results

    @property
    def _target(self) -> Target:
        return host_target().limited(self.settings.isa)

    @property
    def _matrices(self) -> tuple[Weight, Weight, Weight]:
        return self.gate, self.up, self.down

    def _values(self, weight: Weight, tiles: bool) -> Float:
        return rounded(weight) if tiles else weight.dequantize()

    def _rounded(self, row: Float, weight: Weight, tiles: bool) -> Double:
        """A row that is multiplied with a matrix."""
        if tiles:
            return nearest(row).astype(np.float64)
        if self.dtype == "float32" or weight.encoding in PLAIN:
            return row.astype(np.float64)
        return quantized(row[None], self._target.has("fma") or not self._target.is_x86)[0]


def mixture(encoding: str, hidden: int = 96, inner: int = 64, **options: object) -> Mixture:
    """A mixture whose matrices are in one encoding."""
    shapes = ((EXPERTS, inner, hidden), (EXPERTS, inner, hidden), (EXPERTS, hidden, inner))
    return Mixture(*(stacked(encoding, shape, seed) for seed, shape in enumerate(shapes)), **options)  # type: ignore[arg-type]


def require_close(got: Float, wanted: Double, tolerance: float) -> None:
    """A number of the hidden row may be rounded the other way."""
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


ALL = np.arange(TOKENS)


@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("encoding", ["q8_0", "q4_0", "q5_1", "f16", "bf16", "f32"])
def test_each_encoding(encoding: str, generated: bool) -> None:
    experts = mixture(encoding)
    require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


@pytest.mark.parametrize("encoding", ["q4_k", "q6_k"])
def test_blocks_of_256_columns(encoding: str) -> None:
    experts = mixture(encoding, 256, 256)
    for generated in (False, True):
        require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


@pytest.mark.parametrize("encoding", ["q8_0", "q4_1", "bf16", "f32"])
def test_float32(encoding: str) -> None:
    experts = mixture(encoding, dtype="float32")
    require_close(experts(ALL, False), experts.expected(ALL), 3e-6)


def test_matrices_of_different_encodings() -> None:
    parts = (
        stacked("q8_0", (EXPERTS, 64, 32), 0),
        stacked("bf16", (EXPERTS, 64, 32), 1),
        stacked("q4_0", (EXPERTS, 32, 64), 2),
    )
    experts = Mixture(*parts)
    for generated in (False, True):
        require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (17, 33), (33, 15), (1090, 40), (40, 1090)])
@pytest.mark.parametrize("generated", [False, True])
def test_any_size(shape: tuple[int, int], generated: bool) -> None:
    experts = mixture("bf16", *shape)
    require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


@pytest.mark.parametrize("top_k", [1, EXPERTS])
def test_one_expert_and_all(top_k: int) -> None:
    experts = mixture("q8_0", top_k=top_k)
    for generated in (False, True):
        require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


def test_limits() -> None:
    experts = mixture("q8_0", gate_limit=0.1, up_limit=0.05)
    for generated in (False, True):
        require_close(experts(ALL, generated), experts.expected(ALL, generated), 1e-3)


@pytest.mark.parametrize("isa", TIERS_HERE)
@pytest.mark.parametrize("encoding", ["q5_0", "f32"])
def test_each_instruction_set(encoding: str, isa: Isa) -> None:
    experts = mixture(encoding, settings=CpuSettings(isa=isa, threads=2))
    for generated in (False, True):
        require_close(experts(ALL[:40], generated), experts.expected(ALL[:40], generated), 1e-3)


@pytest.mark.parametrize("encoding", ["q5_0", "bf16"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_token_is_the_same_in_any_company(encoding: str, dtype: DType, threads: int) -> None:
    """Alone, in other orders, beside tokens of the other origin, and on any number of threads."""
    experts = mixture(encoding, dtype=dtype, settings=CpuSettings(threads=threads))
    single = mixture(encoding, dtype=dtype, settings=CpuSettings(threads=1))
    prompt, generated = single(ALL, False), single(ALL, True)
    np.testing.assert_array_equal(experts(ALL[::-1], False), prompt[::-1])
    for token in (0, 7, 149):
        np.testing.assert_array_equal(experts([token], False), prompt[[token]])
        np.testing.assert_array_equal(experts([token], True), generated[[token]])
    flags = np.random.default_rng(3).random(TOKENS) < 0.3
    np.testing.assert_array_equal(experts(ALL, flags), np.where(flags[:, None], generated, prompt))


def test_no_tokens() -> None:
    assert mixture("q8_0")([], False).shape == (0, 96)
