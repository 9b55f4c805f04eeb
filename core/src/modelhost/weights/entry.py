"""Where a tensor lies in a checkpoint's files, and the checks that every format shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from modelhost.api import Encoding

from .mapped_file import MappedFile

_MOST_DIMENSIONS = 32
_MOST_VALUES = 1 << 56


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies.

    Attributes:
        name: the tensor's name.
        shape: logical shape in row-major order.
        type: GGUF type number or safetensors dtype name, as the file states it.
        encoding: the record that reads ``type``; ``None`` when none is installed.
        file: the mapped file.
        start: offset of the first byte in the file.
        nbytes: bytes as encoded; 0 when neither the file nor ``encoding`` tells.
    """

    name: str
    shape: tuple[int, ...]
    type: int | str
    encoding: Encoding | None
    file: MappedFile
    start: int
    nbytes: int


def encoded_nbytes(encoding: Encoding, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of this shape, whose last dimension is a multiple of ``encoding.block_values``."""
    return prod(shape) // encoding.block_values * encoding.block_bytes


def shape_problem(shape: tuple[int, ...], encoding: Encoding | None) -> str | None:
    """What is wrong with a shape read from a file, or ``None``. Bounds every later size computation."""
    if len(shape) > _MOST_DIMENSIONS:
        return f"has {len(shape)} dimensions, more than {_MOST_DIMENSIONS}"
    if prod(max(size, 1) for size in shape) > _MOST_VALUES:
        return f"has the absurd shape {shape}"
    row = shape[-1] if shape else 1
    if encoding and row % encoding.block_values:
        return f"has rows of {row} values, not a multiple of the {encoding.block_values} in a block of {encoding.id}"
    return None
