"""The table of NumPy kernels, and what they work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelhost.graph.operation import Operation

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float32]
Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PagedCache:
    """One layer's cache: ``keys`` float32 ``[slots, kv_heads, key_dim]``, ``values`` likewise with ``value_dim``.

    The values of a latent cache are a view of its keys. ``block_size`` counts entries, of which there is one for every
    ``stride`` tokens.
    """

    keys: Float
    values: Float
    block_size: int
    window: int | None
    stride: int = 1


KERNELS: dict[str, Callable[..., Any]] = {}
"""The kernel of every op, by the op's name."""


def kernel(op: Operation[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function computes ``op``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[op.name] = function
        return function

    return register
