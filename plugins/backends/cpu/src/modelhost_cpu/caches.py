"""Memory of the states: paged keys and values, and recurrent states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modelhost.api.backend import CacheLayout, RecurrentSpec, State

from .kernels.cache_layout import PADDING, CacheShape
from .native.memory import aligned_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]


def state_memory(state: State, cache: CacheLayout, item_bytes: int) -> tuple[Bytes, ...]:
    """Zeroed memory of a state: of keys and of values for a paged cache, else one block for all slots.

    A latent cache has no memory of values. See :mod:`modelhost_cpu.kernels.cache_layout`.
    """
    spec, blocks = state.spec, cache.blocks[state.spec.group]
    if isinstance(spec, RecurrentSpec):
        return (aligned_bytes(blocks * spec.bytes_per_slot),)
    shape = CacheShape.of(spec, cache.block_size, item_bytes)
    return tuple(aligned_bytes(blocks * nbytes + PADDING) for nbytes in shape.block_bytes)
