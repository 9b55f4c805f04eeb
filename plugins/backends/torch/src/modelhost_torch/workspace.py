"""How much memory a step takes besides weights and caches."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch

from modelhost.api.backend import (
    ITEM_SIZES,
    CacheSpec,
    Graph,
    Node,
    RecurrentSpec,
    State,
    Tensor,
    block_entries,
    evaluate,
    plan_arena,
)
from modelhost.graph import ops

from .attention_plan import GATHER_BYTES, MASK_ELEMENTS
from .planned import PLANNED, TABLES, holds_scores
from .recurrent import RECURRENT

_BLAS_BYTES = 64 << 20
"""What cuBLAS and its like hold on an accelerator."""
_DEFAULT_BLOCK_SIZE = 16
_IN_FLOAT32 = frozenset(
    {ops.rms_norm, ops.add_rms_norm, ops.layer_norm, ops.mix_streams, ops.rope, ops.route, ops.soft_cap}
)


def workspace_bytes(graph: Graph, sizes: Mapping[str, int], device: torch.device) -> int:
    """Intermediate tensors, the most that one kernel needs inside it, kept masks, copies of inputs and outputs.

    Args:
        sizes: the value of every symbol and, as ``block_size``, the tokens in a block of the cache (16 when not given).
    """
    inputs = sum(_elements(tensor, sizes) for tensor in graph.inputs.values()) * 8
    outputs = sum(_elements(tensor, sizes) for tensor in graph.outputs.values()) * 4
    inside = max((_temporaries(node, sizes) for node in graph.nodes), default=0)
    specs = [state.spec for state in graph.states.values() if isinstance(state.spec, CacheSpec)]
    masks = MASK_ELEMENTS * len({(spec.window, spec.stride) for spec in specs})
    library = 0 if device.type == "cpu" else _BLAS_BYTES
    return plan_arena(graph, sizes).size + inside + inputs + outputs + masks + library


def _elements(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    return prod(evaluate(dim, sizes) for dim in tensor.shape)


def _temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    if node.op is ops.compressed_attention:
        partial = 4 * _elements(node.outputs[0], sizes) * ITEM_SIZES["float32"]
        caches = zip(TABLES, node.states, strict=True)
        return partial + max(_attention_temporaries(node, sizes, *cache) for cache in caches)
    if node.op in PLANNED:
        return _attention_temporaries(node, sizes, TABLES[0], next(node.states))
    if node.op is ops.pool_windows:
        return _pooling_temporaries(node, sizes)
    if node.op is ops.experts:
        return _experts_temporaries(node, sizes)
    if node.op in RECURRENT:
        return _recurrent_temporaries(node, sizes)
    if node.op in _IN_FLOAT32:
        return 3 * 4 * max(_elements(output, sizes) for output in node.outputs)
    return 0


def _attention_temporaries(node: Node, sizes: Mapping[str, int], table_name: str, state: State) -> int:
    """Of attention over the cache ``state``, whose block table is the operand ``table_name``."""
    named = dict(zip(node.op.operand_names, node.operands, strict=True))
    query, table, spec = named["query"], named[table_name], state.spec
    if not isinstance(query, Tensor) or not isinstance(table, Tensor) or not isinstance(spec, CacheSpec):
        raise TypeError(f"malformed node: {node}")
    width = ITEM_SIZES["float32"]
    explicit = holds_scores(node)
    block_size = block_entries(sizes.get("block_size", _DEFAULT_BLOCK_SIZE), spec.stride)
    context = evaluate(table.shape[1], sizes) * block_size
    gathered = max(GATHER_BYTES, context * spec.bytes_per_token(query.dtype)) * (2 if explicit else 1)
    reordered = query.nbytes(sizes) + 2 * node.outputs[0].nbytes(sizes)
    heads = evaluate(query.shape[1], sizes)
    elements = max(MASK_ELEMENTS, context * (heads if explicit else heads // spec.kv_heads))
    scores = 3 * elements * width if explicit else 0
    made = context * _made_values(node, spec) * ITEM_SIZES[query.dtype]
    chosen = 10 * elements if named.get("selected") is not None else 0
    return gathered + reordered + elements * (1 + width) + scores + made + chosen


def _made_values(node: Node, spec: CacheSpec) -> int:
    """Values that are made of the latent of one token: what is projected, and the keys with their rotated part."""
    if node.op is not ops.latent_attention:
        return 0
    query, projection = node.operands[:2]
    if not isinstance(query, Tensor) or not isinstance(projection, Tensor):
        raise TypeError(f"malformed node: {node}")
    heads, rotated = evaluate(query.shape[1], {}), spec.key_dim - spec.value_dim
    return 2 * evaluate(projection.shape[0], {}) + heads * rotated


def _pooling_temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    """Values and gates of the tokens of all entries as they are stored, and five times in float32."""
    [state] = node.states
    if not isinstance(state.spec, CacheSpec) or state.spec.window is None:
        raise TypeError(f"malformed node: {node}")
    stride: int = node.attributes["stride"]
    entries = -(-evaluate(node.outputs[0].shape[0], sizes) // stride)
    return entries * state.spec.window * state.spec.key_dim * 7 * ITEM_SIZES["float32"]


def _experts_temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    """Inputs and results of every choice, and the gates and ups of the expert with all of them."""
    x, weights, _ids, gate = node.operands[:4]
    if not isinstance(x, Tensor) or not isinstance(weights, Tensor) or not isinstance(gate, Tensor):
        raise TypeError(f"malformed node: {node}")
    choices = _elements(weights, sizes)
    hidden, inner = evaluate(x.shape[1], sizes), evaluate(gate.shape[1], sizes)
    width = ITEM_SIZES[x.dtype]
    return choices * (2 * hidden * width + 3 * inner * width + hidden * 4 + 24) + _elements(x, sizes) * 4


def _recurrent_temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    """In float32 the states of all sequences, and each operand and the result up to four times for every state head."""
    [state] = node.states
    if not isinstance(state.spec, RecurrentSpec):
        raise TypeError(f"malformed node: {node}")
    tokens, sequences = evaluate(node.outputs[0].shape[0], sizes), sizes["B"]
    states = (sequences + 2) * prod(state.spec.shape)
    rows = tokens * (sum(state.spec.shape) * state.spec.shape[0] if len(state.spec.shape) > 2 else state.spec.shape[-1])
    return (states + 4 * rows) * ITEM_SIZES["float32"]
