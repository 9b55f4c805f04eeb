"""Symbolic tensors: a dtype and a shape whose dimensions are integers or symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from modelhost.api.errors import GraphError

if TYPE_CHECKING:
    from .cache import CacheSpec, RecurrentSpec

DType = Literal["float32", "bfloat16", "float16", "int32", "bool"]
ITEM_SIZES: dict[DType, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "int32": 4, "bool": 1}
"""Bytes of one element of each dtype."""
FLOATS: frozenset[DType] = frozenset({"float32", "bfloat16", "float16"})


@dataclass(frozen=True, slots=True, repr=False)
class Symbol:
    """A dimension known only when a step runs: ``scale * value(name) + offset``."""

    name: str
    scale: int = 1
    offset: int = 0

    def __add__(self, other: int) -> Symbol:
        return Symbol(self.name, self.scale, self.offset + other)

    def __mul__(self, other: int) -> Symbol:
        return Symbol(self.name, self.scale * other, self.offset * other)

    def __str__(self) -> str:
        scaled = self.name if self.scale == 1 else f"{self.scale}*{self.name}"
        return scaled if self.offset == 0 else f"{scaled}{self.offset:+d}"

    __repr__ = __str__


Dim = int | Symbol
Shape = tuple[Dim, ...]


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The integer that ``dim`` stands for when the symbols have ``sizes``.

    Raises:
        GraphError: ``sizes`` lacks the symbol.
    """
    if isinstance(dim, int):
        return dim
    if dim.name not in sizes:
        raise GraphError(f"the size of symbol {dim.name!r} was not given; known: {sorted(sizes)}")
    return dim.scale * sizes[dim.name] + dim.offset


class Tensor:
    """A value in a graph. Two tensors are equal only when they are the same object.

    Attributes:
        dtype: element type.
        shape: dimensions, each an int or a :class:`Symbol`.
        name: where it comes from, for people; unique for inputs and parameters.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, dtype: DType, shape: Shape, name: str = "") -> None:
        self.dtype: DType = dtype
        self.shape = tuple(shape)
        self.name = name

    def __add__(self, other: Tensor) -> Tensor:
        from . import ops

        return ops.add(self, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        from . import ops

        return ops.multiply(self, other) if isinstance(other, Tensor) else ops.scale(self, factor=float(other))

    def like(self, *, dtype: DType | None = None, shape: Shape | None = None) -> Tensor:
        """A new tensor with this one's dtype and shape, but for what is given."""
        return Tensor(dtype or self.dtype, self.shape if shape is None else shape)

    def nbytes(self, sizes: Mapping[str, int]) -> int:
        """Bytes when the symbols have ``sizes``."""
        count = 1
        for dim in self.shape:
            count *= evaluate(dim, sizes)
        return count * ITEM_SIZES[self.dtype]

    def __repr__(self) -> str:
        label = f"{self.name}: " if self.name else ""
        return f"{label}{self.dtype}[{', '.join(map(str, self.shape))}]"


Sharding = Literal["column", "row", "vocabulary", "expert", "replicated"]
"""How a parameter divides among ranks: by output features, input features, vocabulary rows, experts, or not."""


class Parameter(Tensor):
    """A tensor whose values come from the checkpoint.

    Attributes:
        sharding: how it divides among tensor-parallel ranks.
        parts: for a parameter made by merging others row by row, those others in order; else empty.
    """

    __slots__ = ("parts", "sharding")

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        sharding: Sharding = "replicated",
        dtype: DType = "float32",
        name: str = "",
        parts: tuple[Parameter, ...] = (),
    ) -> None:
        super().__init__(dtype, shape, name)
        self.sharding: Sharding = sharding
        self.parts = parts

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape, all of whose dimensions are integers."""
        return tuple(dim for dim in self.shape if isinstance(dim, int))


class State:
    """Memory that outlives a step: the cache of one layer, owned by the engine.

    Attributes:
        name: unique in the model.
        spec: what is stored and for how long.
    """

    __slots__ = ("name", "spec")

    def __init__(self, name: str, spec: CacheSpec | RecurrentSpec) -> None:
        self.name = name
        self.spec: CacheSpec | RecurrentSpec = spec

    def __repr__(self) -> str:
        return f"{self.name}: {self.spec}"
