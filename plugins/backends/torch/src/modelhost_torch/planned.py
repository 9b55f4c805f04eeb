"""The ops whose queries are cut into parts before they run."""

from __future__ import annotations

from modelhost.api.backend import Node
from modelhost.graph import ops

PLANNED = frozenset({ops.attention, ops.compressed_attention, ops.latent_attention, ops.index_top_k})
TABLES = ("block_table", "compressed_table")
"""Operands for the caches of a node, in order. The kernel takes, last, a list of parts for each cache instead."""
INDICES = ("sequence_starts", "context_lengths")
"""Operands that are needed with each."""


def holds_scores(node: Node) -> bool:
    """Whether the kernel computes and holds the scores of all heads, because no fused kernel does it."""
    if node.op in (ops.index_top_k, ops.compressed_attention):
        return True
    if node.op is not ops.attention:
        return False
    sinks = node.operands[node.op.operand_names.index("sinks")]
    return sinks is not None or node.attributes["soft_cap"] is not None
