"""Memory of the states: paged keys and values, and recurrent states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modelhost.api.backend import CacheLayout, CacheSpec, RecurrentSpec, State, block_entries

from .native.pool import aligned_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


def state_memory(state: State, cache: CacheLayout, item_bytes: int) -> tuple[Bytes, ...]:
    """Zeroed memory of a state: of keys and of values for a paged cache, else one block for all slots.

    A paged cache lies in blocks: ``[block][head][entry of the block, dimension]``, the last two as the kernels of
    :mod:`modelhost_cpu.kernels` arrange them. A latent cache has no values.
    """
    spec, blocks = state.spec, cache.blocks[state.spec.group]
    if isinstance(spec, RecurrentSpec):
        return (aligned_bytes(blocks * spec.bytes_per_slot),)
    entries = blocks * block_entries(cache.block_size, spec.stride)
    sizes = [_cache_bytes(spec, entries, dim, item_bytes) for dim in _dims(spec)]
    return tuple(aligned_bytes(size) for size in sizes)


def _dims(spec: CacheSpec) -> tuple[int, ...]:
    return (spec.key_dim,) if spec.latent else (spec.key_dim, spec.value_dim)


def _cache_bytes(spec: CacheSpec, entries: int, dim: int, item_bytes: int) -> int:
    """Dimensions and entries are rounded up to even numbers, since the kernels keep them in pairs."""
    return (entries + entries % 2) * spec.kv_heads * (dim + dim % 2) * item_bytes
