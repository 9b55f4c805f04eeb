"""The ops that models are written in. Each is one schema; :mod:`modelhost.reference` computes every one with NumPy."""

from __future__ import annotations

from typing import Any

from ..operation import Operation
from .attention import attention, write_cache
from .elementwise import activation, add, cast, gated_activation, multiply, scale, soft_cap
from .linear import embed, linear
from .norm import add_rms_norm, rms_norm
from .rope import rope, rope_table, rope_table_dynamic, rope_table_longrope
from .shape import reshape, split, take_rows

OPS: dict[str, Operation[..., Any]] = {
    op.name: op
    for op in (
        activation,
        add,
        add_rms_norm,
        attention,
        cast,
        embed,
        gated_activation,
        linear,
        multiply,
        reshape,
        rms_norm,
        rope,
        rope_table,
        rope_table_dynamic,
        rope_table_longrope,
        scale,
        soft_cap,
        split,
        take_rows,
        write_cache,
    )
}
"""Every op by name."""

__all__ = [
    "OPS",
    "activation",
    "add",
    "add_rms_norm",
    "attention",
    "cast",
    "embed",
    "gated_activation",
    "linear",
    "multiply",
    "reshape",
    "rms_norm",
    "rope",
    "rope_table",
    "rope_table_dynamic",
    "rope_table_longrope",
    "scale",
    "soft_cap",
    "split",
    "take_rows",
    "write_cache",
]
