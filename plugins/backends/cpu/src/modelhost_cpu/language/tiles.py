"""AMX: matrix products in tile registers of 16 rows of 64 bytes.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .function import Function
from .types import i8, void
from .value import Value

TILE_ROWS = 16
TILE_BYTES = 1024
PAIRS = 16
"""Pairs of bfloat16 numbers in a row of a tile."""
CONFIGURATION_BYTES = 64
_ROWS_OF_TILE = 48


def configuration(rows: Sequence[int], widths: Mapping[int, int] | None = None) -> bytes:
    """What :func:`configure` reads, for tiles of ``rows`` rows of 64 bytes. A tile of 0 rows must not be used.

    Args:
        widths: bytes of the rows of tiles that have fewer, by tile.
    """
    content = bytearray(CONFIGURATION_BYTES)
    content[0] = 1
    for tile, count in enumerate(rows):
        content[16 + 2 * tile] = (widths or {}).get(tile, 64)
        content[_ROWS_OF_TILE + tile] = count
    return bytes(content)


def set_rows(k: Function, place: Value, tile: int, rows: Value) -> None:
    """Change the number of rows (``i64``) of a tile in the configuration at ``place``."""
    k.store(rows.to(i8), place, _ROWS_OF_TILE + tile)


def configure(k: Function, place: Value) -> None:
    """Set the shapes of all tiles from the configuration at ``place``, and fill them with zeros."""
    k.call("llvm.x86.ldtilecfg", void, place)


def release(k: Function) -> None:
    """Say that the tiles are not needed any more, so that nobody has to save them."""
    k.call("llvm.x86.tilerelease", void)


def _number(k: Function, tile: int) -> Value:
    return k.constant(i8, tile)


def zero(k: Function, tile: int) -> None:
    """Fill a tile with zeros."""
    k.call("llvm.x86.tilezero", void, _number(k, tile))


def load(k: Function, tile: int, pointer: Value, stride: Value | int = 64, *, once: bool = False) -> None:
    """Read the rows of a tile, ``stride`` bytes apart; ``once`` asks not to keep them in the nearest cache."""
    name = "llvm.x86.tileloaddt164" if once else "llvm.x86.tileloadd64"
    k.call(name, void, _number(k, tile), pointer, k.integer(stride))


def store(k: Function, tile: int, pointer: Value, stride: Value | int = 64) -> None:
    """Write the rows of a tile, ``stride`` bytes apart."""
    k.call("llvm.x86.tilestored64", void, _number(k, tile), pointer, k.integer(stride))


def multiply_bf16(k: Function, total: int, left: int, right: int) -> None:
    """``total[m][n] += left[m][2*j] * right[j][2*n] + left[m][2*j+1] * right[j][2*n+1]``, for j from 0 to 15 in order.

    ``left`` and ``right`` are bfloat16, ``total`` is float32. Denormals count as zero; sums are rounded to nearest.
    """
    k.call("llvm.x86.tdpbf16ps", void, *(_number(k, tile) for tile in (total, left, right)))
