"""The kernels of all ops; the short ones are here. Each is bound to a node once, when a graph is compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from modelhost.api.backend import Node, Operation, Symbol
from modelhost.api.backend import Tensor as Value
from modelhost.graph import ops

from .activations import ACTIVATIONS
from .attention import attention, write_cache
from .compressed import compressed_attention, pool_windows
from .device import DTYPES
from .latent import head_linear, index_top_k, latent_attention
from .moe import experts, route
from .recurrent import causal_convolution, decay_gate, gated_delta_rule
from .streams import mix_streams, stream_weights

Tensor = torch.Tensor
Kernel = Callable[..., Any]

_FEW_ROWS = 4
_KERNELS: dict[str, Kernel] = {
    ops.attention.name: attention,
    ops.compressed_attention.name: compressed_attention,
    ops.experts.name: experts,
    ops.head_linear.name: head_linear,
    ops.index_top_k.name: index_top_k,
    ops.latent_attention.name: latent_attention,
    ops.mix_streams.name: mix_streams,
    ops.pool_windows.name: pool_windows,
    ops.route.name: route,
    ops.stream_weights.name: stream_weights,
    ops.write_cache.name: write_cache,
}
_KERNELS |= {
    ops.causal_convolution.name: causal_convolution,
    ops.decay_gate.name: decay_gate,
    ops.gated_delta_rule.name: gated_delta_rule,
}
_BINDERS: dict[str, Callable[[Node, torch.device], Kernel]] = {}


def is_native(op: Operation[..., Any]) -> bool:
    """Whether there is a kernel for ``op``."""
    return op.name in _KERNELS or op.name in _BINDERS


def bind(node: Node, device: torch.device) -> Kernel:
    """The kernel of ``node``: a function of its operands in order."""
    if node.op.name in _BINDERS:
        return _BINDERS[node.op.name](node, device)
    return partial(_KERNELS[node.op.name], **node.attributes)


def _kernel(op: Operation[..., Any]) -> Callable[[Kernel], Kernel]:
    """Decorator: the function computes ``op`` from its operands and, as keywords, its attributes."""

    def register(function: Kernel) -> Kernel:
        _KERNELS[op.name] = function
        return function

    return register


def _binder(op: Operation[..., Any]) -> Callable[[Callable[[Node, torch.device], Kernel]], Any]:
    """Decorator: the function makes the kernel of a node from what is known before the step."""

    def register(function: Callable[[Node, torch.device], Kernel]) -> Any:
        _BINDERS[op.name] = function
        return function

    return register


@_binder(ops.linear)
def _bind_linear(node: Node, device: torch.device) -> Kernel:
    return _linear_on_host if device.type == "cpu" else _linear


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def _linear_on_host(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A few float32 rows are taken as columns: MKL then reads the weight several times as fast, from two columns on."""
    rows = x.reshape(-1, x.shape[-1])
    if x.dtype != torch.float32 or not 1 <= len(rows) <= _FEW_ROWS:
        return _linear(x, weight, bias)
    columns = torch.cat((rows, rows)).T if len(rows) == 1 else rows.T
    product = (weight.float() @ columns).T[: len(rows)]
    product = product.contiguous() if bias is None else product + bias
    return product.view(*x.shape[:-1], -1)


@_kernel(ops.embed)
def _embed(token_ids: Tensor, table: Tensor, *, dtype: str) -> Tensor:
    return F.embedding(token_ids, table).to(_torch_dtype(dtype))


@_kernel(ops.add)
def _add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


@_kernel(ops.multiply)
def _multiply(x: Tensor, y: Tensor) -> Tensor:
    return x * y


@_binder(ops.scale)
def _scale(node: Node, device: torch.device) -> Kernel:
    x = node.operands[0]
    dtype = DTYPES[x.dtype] if isinstance(x, Value) else torch.float32
    factor = torch.tensor(node.attributes["factor"], dtype=dtype).item()
    return lambda x: x * factor


@_kernel(ops.scale_rows)
def _scale_rows(x: Tensor, factors: Tensor) -> Tensor:
    return (x * factors).to(x.dtype)


@_kernel(ops.cast)
def _cast(x: Tensor, *, dtype: str) -> Tensor:
    return x.to(_torch_dtype(dtype))


def _torch_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


@_kernel(ops.clamp)
def _clamp(x: Tensor, *, low: float | None, high: float | None) -> Tensor:
    return x.clamp(low, high)


@_kernel(ops.soft_cap)
def _soft_cap(x: Tensor, *, cap: float) -> Tensor:
    return (torch.tanh(x.float() / cap) * cap).to(x.dtype)


@_kernel(ops.activation)
def _activation(x: Tensor, *, kind: str) -> Tensor:
    return ACTIVATIONS[kind](x)


@_kernel(ops.gated_activation)
def _gated_activation(gate: Tensor, up: Tensor, *, kind: str) -> Tensor:
    return ACTIVATIONS[kind](gate).mul_(up)


@_kernel(ops.rms_norm)
def _rms_norm(x: Tensor, weight: Tensor | None, *, eps: float, weight_offset: float) -> Tensor:
    wide = x.float()
    factors = weight if weight is None or not weight_offset else weight + weight_offset
    return F.rms_norm(wide, wide.shape[-1:], factors, eps).to(x.dtype)


@_kernel(ops.add_rms_norm)
def _add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, *, eps: float, weight_offset: float
) -> tuple[Tensor, Tensor]:
    total = x + residual
    return total, _rms_norm(total, weight, eps=eps, weight_offset=weight_offset)


@_kernel(ops.layer_norm)
def _layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    wide = x.float()
    return F.layer_norm(wide, wide.shape[-1:], weight, bias, eps).to(x.dtype)


def _table(positions: Tensor, frequencies: Tensor, scale: float) -> Tensor:
    angles = positions.float()[:, None] * frequencies
    return torch.cat((torch.cos(angles), torch.sin(angles)), -1) * scale


@_binder(ops.rope_table)
def _rope_table(node: Node, device: torch.device) -> Kernel:
    frequencies = torch.tensor(node.attributes["frequencies"], dtype=torch.float32, device=device)
    scale, offset = node.attributes["scale"], node.attributes["offset"]
    return lambda positions: _table(positions + offset, frequencies, scale)


@_binder(ops.rope_table_longrope)
def _rope_table_longrope(node: Node, device: torch.device) -> Kernel:
    names = ("short_frequencies", "long_frequencies")
    both = torch.tensor([node.attributes[name] for name in names], dtype=torch.float32, device=device)
    limit, scale = node.attributes["original_length"], node.attributes["scale"]
    return lambda positions, lengths: _table(positions, both[(lengths > limit).long()], scale)


@_kernel(ops.rope_table_dynamic)
def _rope_table_dynamic(
    positions: Tensor, lengths: Tensor, *, base: float, dimensions: int, factor: float, original_length: int
) -> Tensor:
    # On the host, because some devices have no float64.
    length = lengths.to("cpu", torch.float64).clamp(min=original_length)
    stretch = (factor * length / original_length - (factor - 1)) ** (dimensions / (dimensions - 2))
    exponents = torch.arange(0, dimensions, 2, dtype=torch.float64) / dimensions
    frequencies = 1.0 / (base * stretch[:, None]) ** exponents
    return _table(positions, frequencies.float().to(positions.device), 1.0)


@_kernel(ops.rope)
def _rope(x: Tensor, table: Tensor, *, interleaved: bool) -> Tensor:
    rotated = table.shape[-1]
    cos, sin = table[:, None].chunk(2, -1)
    turned, rest = x[..., :rotated], x[..., rotated:]
    first, second = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = (first * cos - second * sin, second * cos + first * sin)
    result = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    result = result.to(x.dtype)
    return torch.cat((result, rest), -1) if rest.shape[-1] else result


@_binder(ops.reshape)
def _reshape(node: Node, device: torch.device) -> Kernel:
    """Symbols keep their order, so a symbolic dimension has the size of the operand's dimension with that symbol."""
    source = node.operands[0]
    symbolic = iter(
        [axis for axis, dim in enumerate(source.shape) if isinstance(dim, Symbol)] if isinstance(source, Value) else []
    )
    plan = [(next(symbolic), 0) if isinstance(dim, Symbol) else (-1, dim) for dim in node.attributes["shape"]]
    return lambda x: x.reshape([x.shape[axis] if axis >= 0 else size for axis, size in plan])


@_kernel(ops.split)
def _split(x: Tensor, *, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return torch.split_with_sizes(x, sizes, -1)


@_kernel(ops.concatenate)
def _concatenate(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat((x, y), -1)


@_kernel(ops.take_rows)
def _take_rows(x: Tensor, rows: Tensor) -> Tensor:
    return x.index_select(0, rows)
