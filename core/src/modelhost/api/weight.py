"""A weight as it lies in a checkpoint: encoded blocks and the function that decodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, overload

from .errors import WeightError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class _Blocks:
    """The field ``blocks`` of a weight: given as one array or as weights to join, read as one array."""

    @overload
    def __get__(self, weight: None, owner: type) -> _Blocks: ...
    @overload
    def __get__(self, weight: Weight, owner: type) -> npt.NDArray[np.uint8]: ...
    def __get__(self, weight: Weight | None, owner: type) -> Any:
        if weight is None:
            raise AttributeError("blocks")  # tells dataclass that the field has no default
        given = self.given(weight)
        if not isinstance(given, tuple):
            return given
        import numpy as np

        return np.concatenate([piece.blocks for piece in weight.pieces()])

    def __set__(self, weight: Weight, value: npt.NDArray[np.uint8] | tuple[Weight, ...]) -> None:
        vars(weight)["blocks"] = value

    @staticmethod
    def given(weight: Weight) -> npt.NDArray[np.uint8] | tuple[Weight, ...]:
        value: npt.NDArray[np.uint8] | tuple[Weight, ...] = vars(weight)["blocks"]
        return value


@dataclass(frozen=True)
class Weight:
    """One tensor of a checkpoint, or several that follow each other, kept encoded until a backend asks for values.

    Attributes:
        name: the tensor's name in the checkpoint.
        encoding: id of the encoding record, such as ``"f32"``, ``"bf16"`` or ``"q4_k"``.
        shape: logical shape in row-major order, ``(out_features, in_features)`` for a projection.
        blocks: uint8 ``[*shape[:-1], bytes of one row]``, usually a view into a memory map. It may be given as a tuple
            of weights, equally encoded, that follow each other along the first dimension. Each time that it is read
            they are joined into a new array; :meth:`pieces` has them without a copy.
        decode: ``(uint8[..., bytes]) -> float32[..., values]`` of the encoding.
    """

    name: str
    encoding: str
    shape: tuple[int, ...]
    blocks: _Blocks = _Blocks()
    decode: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]  # type: ignore[misc]

    @classmethod
    def of_values(cls, name: str, values: npt.NDArray[np.float32]) -> Weight:
        """A weight of plain float32 values."""
        import numpy as np

        def decode(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
            return np.ascontiguousarray(blocks).view(np.float32)

        blocks = np.ascontiguousarray(values, np.float32).view(np.uint8).reshape(*values.shape[:-1], -1)
        return cls(name, "f32", values.shape, blocks, decode)

    def pieces(self) -> tuple[Weight, ...]:
        """The weights that follow each other along the first dimension to make up this one; often itself alone.

        The ``blocks`` of each are one array, not joined from others, so a backend that takes a weight piece by piece
        holds no copy of it.
        """
        given = _Blocks.given(self)
        return tuple(piece for part in given for piece in part.pieces()) if isinstance(given, tuple) else (self,)

    @property
    def nbytes(self) -> int:
        """Bytes as encoded."""
        return sum(piece.blocks.nbytes for piece in self.pieces())

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape)

    def dequantize(self) -> npt.NDArray[np.float32]:
        """All values, float32 of :attr:`shape`."""
        pieces = self.pieces()
        if len(pieces) == 1:
            return self.decode(pieces[0].blocks).reshape(self.shape)
        import numpy as np

        values, end = np.empty(self.shape, np.float32), 0
        for piece in pieces:
            start, end = end, end + piece.shape[0]
            values[start:end] = piece.dequantize()
        return values

    def release(self) -> None:
        """Take the pages of the file that hold the blocks out of the process's memory.

        A backend calls it when it has made its own form of the weight. The blocks stay usable: what is read of them
        later comes from the file again. Nothing happens where the platform has no way to do it, nor to blocks that are
        not in a mapped file.
        """
        from modelhost.weights.mapped_file import release_pages

        for piece in self.pieces():
            release_pages(piece.blocks)

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
        blocks = self.blocks
        if len(self.shape) != 2 or rest or self.decode(blocks[:1, :width]).size != 1:
            raise WeightError(f"{self.encoding} tensor {self.name!r} of shape {self.shape} cannot be transposed")
        rows, columns = self.shape
        blocks = blocks.reshape(rows, columns, width).swapaxes(0, 1).reshape(columns, -1)
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
