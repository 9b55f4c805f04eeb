"""A weight as it lies in a checkpoint: encoded blocks and the function that decodes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from .errors import WeightError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor of a checkpoint, kept encoded until a backend asks for values.

    Attributes:
        name: the tensor's name in the checkpoint.
        encoding: id of the encoding record, such as ``"f32"``, ``"bf16"`` or ``"q4_k"``.
        shape: logical shape in row-major order, ``(out_features, in_features)`` for a projection.
        blocks: uint8 ``[*shape[:-1], bytes of one row]``, usually a view into a memory map.
        decode: ``(uint8[..., bytes]) -> float32[..., values]`` of the encoding.
    """

    name: str
    encoding: str
    shape: tuple[int, ...]
    blocks: npt.NDArray[np.uint8]
    decode: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]

    @property
    def nbytes(self) -> int:
        """Bytes as encoded."""
        return int(self.blocks.nbytes)

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape)

    def dequantize(self) -> npt.NDArray[np.float32]:
        """All values, float32 of :attr:`shape`."""
        return self.decode(self.blocks).reshape(self.shape)

    def rows(self, index: slice | npt.NDArray[np.intp]) -> Weight:
        """The same weight restricted to (or reordered by) rows of its first dimension, still encoded.

        Raises:
            WeightError: the weight has no dimension to index besides its encoded one.
        """
        if len(self.shape) < 2:
            raise WeightError(f"tensor {self.name!r} of shape {self.shape} has no rows to select")
        blocks = self.blocks[index]
        return replace(self, shape=(blocks.shape[0], *self.shape[1:]), blocks=blocks)
