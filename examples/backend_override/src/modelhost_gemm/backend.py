"""The NumPy backend with matrix products over all tokens of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelhost.api.reference import ReferenceBackend
from modelhost.graph import ops

Float = npt.NDArray[np.float32]


def linear(x: Float, weight: Float, bias: Float | None) -> Float:
    product = x.reshape(-1, x.shape[-1]) @ weight.T
    if bias is not None:
        product += bias
    return product.reshape(*x.shape[:-1], len(weight))


class GemmBackend(ReferenceBackend):
    name = "gemm"
    kernels: ClassVar[Mapping[str, Callable[..., Any]]] = {**ReferenceBackend.kernels, ops.linear.name: linear}
