"""The ops that models are written in. Each is one schema; :mod:`modelhost.reference` computes every one with NumPy."""

from __future__ import annotations

from typing import Any

from ..operation import Operation
from .attention import attention, write_cache
from .compressed import compressed_attention, pool_windows
from .elementwise import activation, add, cast, clamp, gated_activation, multiply, scale, scale_rows, soft_cap
from .latent import head_linear, latent_attention
from .linear import embed, linear
from .moe import experts, route
from .norm import add_rms_norm, layer_norm, rms_norm
from .recurrent import causal_convolution, decay_gate, gated_delta_rule
from .rope import rope, rope_table, rope_table_dynamic, rope_table_longrope
from .shape import concatenate, reshape, split, take_rows
from .sparse import index_top_k
from .streams import mix_streams, stream_weights

OPS: dict[str, Operation[..., Any]] = {
    op.name: op
    for op in (
        activation,
        add,
        add_rms_norm,
        attention,
        cast,
        causal_convolution,
        clamp,
        compressed_attention,
        concatenate,
        decay_gate,
        embed,
        experts,
        gated_activation,
        gated_delta_rule,
        head_linear,
        index_top_k,
        latent_attention,
        layer_norm,
        linear,
        mix_streams,
        multiply,
        pool_windows,
        reshape,
        rms_norm,
        rope,
        rope_table,
        rope_table_dynamic,
        rope_table_longrope,
        route,
        scale,
        scale_rows,
        soft_cap,
        split,
        stream_weights,
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
    "causal_convolution",
    "clamp",
    "compressed_attention",
    "concatenate",
    "decay_gate",
    "embed",
    "experts",
    "gated_activation",
    "gated_delta_rule",
    "head_linear",
    "index_top_k",
    "latent_attention",
    "layer_norm",
    "linear",
    "mix_streams",
    "multiply",
    "pool_windows",
    "reshape",
    "rms_norm",
    "rope",
    "rope_table",
    "rope_table_dynamic",
    "rope_table_longrope",
    "route",
    "scale",
    "scale_rows",
    "soft_cap",
    "split",
    "stream_weights",
    "take_rows",
    "write_cache",
]
