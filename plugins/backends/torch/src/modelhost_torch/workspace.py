"""How much memory a step takes besides weights and caches."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch

from modelhost.api.backend import ITEM_SIZES, Graph, Node, State, Tensor, evaluate, plan_arena
from modelhost.graph import ops

from .attention_plan import GATHER_BYTES, MASK_ELEMENTS

_BLAS_BYTES = 64 << 20
"""What cuBLAS and its like hold on an accelerator."""
_DEFAULT_BLOCK_SIZE = 16
_IN_FLOAT32 = frozenset({ops.rms_norm, ops.add_rms_norm, ops.rope, ops.soft_cap})


def workspace_bytes(graph: Graph, sizes: Mapping[str, int], device: torch.device) -> int:
    """Intermediate tensors, the most that one kernel needs inside it, kept masks, copies of inputs and outputs.

    Args:
        sizes: the value of every symbol and, as ``block_size``, the tokens in a block of the cache (16 when not given).
    """
    inputs = sum(_elements(tensor, sizes) for tensor in graph.inputs.values()) * 8
    outputs = sum(_elements(tensor, sizes) for tensor in graph.outputs.values()) * 4
    inside = max((_temporaries(node, sizes) for node in graph.nodes), default=0)
    masks = MASK_ELEMENTS * len({state.spec.window for state in graph.states.values()})
    library = 0 if device.type == "cpu" else _BLAS_BYTES
    return plan_arena(graph, sizes).size + inside + inputs + outputs + masks + library


def _elements(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    return prod(evaluate(dim, sizes) for dim in tensor.shape)


def _temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    if node.op is ops.attention:
        return _attention_temporaries(node, sizes)
    if node.op in _IN_FLOAT32:
        return 3 * 4 * max(_elements(output, sizes) for output in node.outputs)
    return 0


def _attention_temporaries(node: Node, sizes: Mapping[str, int]) -> int:
    query, state, table = node.operands[:3]
    if not isinstance(query, Tensor) or not isinstance(state, State) or not isinstance(table, Tensor):
        raise TypeError(f"malformed node: {node}")
    spec, width = state.spec, ITEM_SIZES["float32"]
    explicit = node.attributes["soft_cap"] is not None
    context = evaluate(table.shape[1], sizes) * sizes.get("block_size", _DEFAULT_BLOCK_SIZE)
    gathered = max(GATHER_BYTES, context * spec.bytes_per_token(query.dtype)) * (2 if explicit else 1)
    reordered = query.nbytes(sizes) + 2 * node.outputs[0].nbytes(sizes)
    heads = evaluate(query.shape[1], sizes)
    elements = max(MASK_ELEMENTS, context * (heads if explicit else heads // spec.kv_heads))
    scores = 3 * elements * width if explicit else 0
    return gathered + reordered + elements * (1 + width) + scores
