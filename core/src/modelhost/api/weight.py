"""A weight as it lies in a checkpoint: encoded blocks and the function that decodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    @classmethod
    def of_values(cls, name: str, values: npt.NDArray[np.float32]) -> Weight:
        """A weight of plain float32 values."""
        import numpy as np

        def decode(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
            return np.ascontiguousarray(blocks).view(np.float32)

        blocks = np.ascontiguousarray(values, np.float32).view(np.uint8).reshape(*values.shape[:-1], -1)
        return cls(name, "f32", values.shape, blocks, decode)

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

    def transposed(self) -> Weight:
        """A matrix with rows and columns exchanged, still encoded.

        Raises:
            WeightError: it is no matrix, or its encoding packs the values of a row together.
        """
        width, rest = divmod(self.nbytes, max(self.size, 1))
        if len(self.shape) != 2 or rest or self.decode(self.blocks[:1, :width]).size != 1:
            raise WeightError(f"{self.encoding} tensor {self.name!r} of shape {self.shape} cannot be transposed")
        rows, columns = self.shape
        blocks = self.blocks.reshape(rows, columns, width).swapaxes(0, 1).reshape(columns, -1)
        return replace(self, shape=(columns, rows), blocks=blocks)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Several tensors of a checkpoint that make up one parameter.

    Attributes:
        tensors: their names.
        join: makes the parameter's weight, float32, of the tensors in order; may raise :class:`WeightError`.
    """

    tensors: tuple[str, ...]
    join: Callable[[Sequence[Weight]], Weight]
