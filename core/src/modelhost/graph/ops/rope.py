"""Rotary position embeddings (Su et al., RoFormer, 2021) and their long-context variants.

The tables of a step are computed once and shared by all layers of one kind. A table row holds the cosines of one
token and then its sines, float32. ``lengths`` holds for every token the length of the sequence when the token was
first processed: the prompt's length for a prompt token, its position plus one for a generated token.
So the result does not depend on how a prompt is cut into chunks.
"""

from __future__ import annotations

from ..operation import operation, require
from ..tensor import FLOATS, Tensor


def _positions(*tensors: Tensor) -> None:
    for tensor in tensors:
        require(
            tensor.dtype == "int32" and len(tensor.shape) == 1, "positions and lengths must be int32 of one dimension"
        )


@operation()
def rope_table(positions: Tensor, *, frequencies: tuple[float, ...], scale: float = 1.0, offset: int = 0) -> Tensor:
    """``scale * [cos(p*f), sin(p*f)]`` for every position p, counted from ``-offset``, and frequency f.

    Args:
        positions: int32 ``[T]``; ``offset`` is added to each.
        frequencies: radians per position, one for each rotated pair (R of them).
        scale: attention scaling of YaRN and LongRoPE; 1 for the others.
        offset: of an entry that stands for several tokens, to its first.

    Returns:
        float32 ``[T, 2*R]``.
    """
    _positions(positions)
    require(len(frequencies) > 0, "frequencies must not be empty")
    return Tensor("float32", (positions.shape[0], 2 * len(frequencies)))


@operation()
def rope_table_longrope(
    positions: Tensor,
    lengths: Tensor,
    *,
    short_frequencies: tuple[float, ...],
    long_frequencies: tuple[float, ...],
    original_length: int,
    scale: float = 1.0,
) -> Tensor:
    """Like :func:`rope_table`, with ``long_frequencies`` where ``lengths > original_length``.

    Source: Ding et al., LongRoPE, 2024.
    """
    _positions(positions, lengths)
    require(
        len(short_frequencies) == len(long_frequencies) > 0, "short and long frequencies must be of the same number"
    )
    return Tensor("float32", (positions.shape[0], 2 * len(short_frequencies)))


@operation()
def rope_table_dynamic(
    positions: Tensor, lengths: Tensor, *, base: float, dimensions: int, factor: float, original_length: int
) -> Tensor:
    """Like :func:`rope_table`, with the base stretched by the sequence length (dynamic NTK scaling).

    Where ``length > original_length`` the base is multiplied by
    ``(factor * length / original_length - (factor - 1)) ** (dimensions / (dimensions - 2))``.
    Source: transformers ``modeling_rope_utils.py``, rope type ``dynamic``.

    Returns:
        float32 ``[T, dimensions]``.
    """
    _positions(positions, lengths)
    require(dimensions > 2 and dimensions % 2 == 0, f"dimensions must be even and above 2, got {dimensions}")
    return Tensor("float32", (positions.shape[0], dimensions))


@operation()
def rope(x: Tensor, table: Tensor, *, interleaved: bool = False) -> Tensor:
    """Rotate the first R dimensions of every head by the angles of ``table``; the others pass through.

    Args:
        x: float ``[T, heads, D]``.
        table: float32 ``[T, R]``, from one of the ``rope_table`` ops, R <= D.
        interleaved: the pairs are ``(0, 1), (2, 3), ...`` instead of ``(0, R/2), (1, R/2 + 1), ...``.
    """
    require(x.dtype in FLOATS and len(x.shape) == 3, "x must be float [tokens, heads, dimensions]")
    require(table.dtype == "float32" and len(table.shape) == 2, "table must be float32 [tokens, rotated dimensions]")
    require(x.shape[0] == table.shape[0], "x and table must have the same number of tokens")
    rotated, size = table.shape[1], x.shape[2]
    require(
        not isinstance(rotated, int) or rotated % 2 == 0, f"table must have an even number of columns, got {rotated}"
    )
    require(
        isinstance(rotated, int) and isinstance(size, int) and rotated <= size,
        "table rotates more dimensions than x has",
    )
    return x.like()
