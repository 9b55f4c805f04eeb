"""Rotary position embeddings as configurations state them, and their frequencies.

The formulas are those of transformers ``modeling_rope_utils.py``; papers: RoFormer (2021), YaRN (Peng et al., 2023),
LongRoPE (Ding et al., 2024). The ``llama3`` kind is described in Meta's Llama 3.1 release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from modelhost.graph import ops
from modelhost.graph.tensor import Tensor

from .errors import GraphError

if TYPE_CHECKING:
    from .step import Step

__all__ = ["RopeParameters", "RotaryEmbedding"]

RopeType = Literal["default", "linear", "dynamic", "yarn", "llama3", "longrope"]
_REQUIRED: dict[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor"),
}


class RopeParameters(BaseModel):
    """The fields of ``rope_parameters`` (or of the older ``rope_theta`` and ``rope_scaling``) of a config.json.

    Attributes:
        frequency_factors: divisors of the frequencies, one for each pair, as GGUF files carry them.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    rope_type: RopeType = "default"
    rope_theta: float = Field(default=10000.0, gt=0)
    partial_rotary_factor: float = Field(default=1.0, gt=0, le=1)
    factor: float | None = Field(default=None, ge=1)
    original_max_position_embeddings: PositiveInt | None = None
    attention_factor: float | None = Field(default=None, gt=0)
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    short_factor: tuple[float, ...] | None = None
    long_factor: tuple[float, ...] | None = None
    frequency_factors: tuple[float, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: Any) -> Any:
        return {k: v for k, v in fields.items() if v is not None} if isinstance(fields, Mapping) else fields

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = [name for name in _REQUIRED.get(self.rope_type, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"rope_type {self.rope_type!r} needs {', '.join(missing)}")
        return self

    def rotated(self, head_dim: int) -> int:
        """Dimensions of a head that are rotated.

        Raises:
            ValueError: they do not form pairs, or a list of factors has another number of them.
        """
        dimensions = int(head_dim * self.partial_rotary_factor + 1e-6)
        least = 4 if self.rope_type == "dynamic" else 2
        if dimensions % 2 or dimensions < least:
            raise ValueError(
                f"head_dim {head_dim} with partial_rotary_factor {self.partial_rotary_factor:g} rotates "
                f"{dimensions} dimensions; rope_type {self.rope_type!r} needs an even number of at least {least}"
            )
        for name in ("short_factor", "long_factor", "frequency_factors"):
            factors = getattr(self, name)
            if factors is not None and len(factors) != dimensions // 2:
                raise ValueError(f"{name} has {len(factors)} values, one for each of {dimensions // 2} pairs is needed")
        return dimensions


class RotaryEmbedding:
    """Rotates queries and keys. Layers that share one object share its table.

    Args:
        parameters: kind and constants.
        head_dim: size of a head.
        max_positions: ``max_position_embeddings`` of the model.
        interleaved: pairs are neighbouring dimensions instead of the two halves.
        last: of heads that are rotated in part, the last dimensions are rotated instead of the first.
    """

    def __init__(
        self,
        parameters: RopeParameters,
        head_dim: int,
        max_positions: int,
        *,
        interleaved: bool = False,
        last: bool = False,
    ) -> None:
        self.parameters = parameters
        self.dimensions = parameters.rotated(head_dim)
        self.max_positions = max_positions
        self.original_length = parameters.original_max_position_embeddings or max_positions
        self._factor = parameters.factor or max_positions / self.original_length
        self.interleaved = interleaved
        self.last = last

    def __call__(self, x: Tensor, step: Step, *, offset: int = 0, back: bool = False) -> Tensor:
        """Rotate ``x`` ``[T, heads, head_dim]`` by the positions of the step.

        Args:
            offset: added to every position.
            back: rotate the other way, which undoes a rotation.

        Raises:
            GraphError: an offset or a way back is asked of a kind whose angles depend on the sequence's length.
        """
        table = step.shared((self, offset, back), lambda: self._table(step, offset, back))
        rest = x.shape[2] - self.dimensions if self.last and isinstance(x.shape[2], int) else 0
        if rest == 0:
            return ops.rope(x, table, interleaved=self.interleaved)
        kept, turned = ops.split(x, sizes=(rest, self.dimensions))
        return ops.concatenate(kept, ops.rope(turned, table, interleaved=self.interleaved))

    @property
    def score_factor(self) -> float:
        """What latent attention multiplies its scores with: the square of YaRN's magnitude for ``mscale_all_dim``.

        Source: transformers ``modeling_deepseek_v3.py``.
        """
        p = self.parameters
        scaled = p.rope_type != "default" and p.mscale_all_dim
        return _magnitude(self._factor, p.mscale_all_dim) ** 2 if scaled and p.mscale_all_dim else 1.0

    def _table(self, step: Step, offset: int, back: bool) -> Tensor:
        p = self.parameters
        if (offset or back) and p.rope_type in ("dynamic", "longrope"):
            raise GraphError(f"rope_type {p.rope_type!r} can be neither offset nor undone")
        if p.rope_type == "dynamic":
            return ops.rope_table_dynamic(
                step.positions,
                step.lengths,
                base=p.rope_theta,
                dimensions=self.dimensions,
                factor=self._factor,
                original_length=self.max_positions,
            )
        if p.rope_type == "longrope" and p.short_factor and p.long_factor:
            return ops.rope_table_longrope(
                step.positions,
                step.lengths,
                short_frequencies=self._divided(p.short_factor),
                long_frequencies=self._divided(p.long_factor),
                original_length=self.original_length,
                scale=self._longrope_scale(),
            )
        frequencies = tuple(-f for f in self._frequencies()) if back else self._frequencies()
        return ops.rope_table(step.positions, frequencies=frequencies, scale=self._yarn_scale(), offset=offset)

    def _base_frequencies(self) -> list[float]:
        return [self.parameters.rope_theta ** (-i / self.dimensions) for i in range(0, self.dimensions, 2)]

    def _divided(self, factors: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(f / factor for f, factor in zip(self._base_frequencies(), factors, strict=True))

    def _frequencies(self) -> tuple[float, ...]:
        p = self.parameters
        base = self._base_frequencies()
        if p.frequency_factors is not None:
            base = list(self._divided(p.frequency_factors))
        if p.rope_type == "linear":
            return tuple(f / self._factor for f in base)
        if p.rope_type == "yarn":
            return self._yarn_frequencies(base)
        if p.rope_type == "llama3":
            return tuple(self._llama3_frequency(f) for f in base)
        return tuple(base)

    def _llama3_frequency(self, frequency: float) -> float:
        low, high = self.parameters.low_freq_factor or 1.0, self.parameters.high_freq_factor or 4.0
        turns = self.original_length * frequency / (2 * math.pi)
        if turns < low:
            return frequency / self._factor
        if turns > high:
            return frequency
        smooth = (turns - low) / (high - low)
        return (1 - smooth) * frequency / self._factor + smooth * frequency

    def _yarn_frequencies(self, base: list[float]) -> tuple[float, ...]:
        p = self.parameters

        def dimension(rotations: float) -> float:
            return (
                self.dimensions
                * math.log(self.original_length / (rotations * 2 * math.pi))
                / (2 * math.log(p.rope_theta))
            )

        low, high = dimension(p.beta_fast), dimension(p.beta_slow)
        if p.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.dimensions - 1)
        span = (high - low) or 0.001
        ramp = [min(1.0, max(0.0, (i - low) / span)) for i in range(len(base))]
        return tuple(f / self._factor * r + f * (1 - r) for f, r in zip(base, ramp, strict=True))

    def _yarn_scale(self) -> float:
        p = self.parameters
        if p.rope_type != "yarn":
            return 1.0
        if p.attention_factor is not None:
            return p.attention_factor
        if p.mscale and p.mscale_all_dim:
            return _magnitude(self._factor, p.mscale) / _magnitude(self._factor, p.mscale_all_dim)
        return _magnitude(self._factor, 1.0)

    def _longrope_scale(self) -> float:
        if self.parameters.attention_factor is not None:
            return self.parameters.attention_factor
        growth = math.log(self._factor) / math.log(self.original_length)
        return 1.0 if self._factor <= 1 else math.sqrt(1 + growth)


def _magnitude(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
