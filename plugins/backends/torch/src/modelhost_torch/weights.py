"""How parameters are stored on the device."""

from __future__ import annotations

from math import prod

import numpy as np
import torch

from modelhost.api.backend import Parameter, Weight


def storage_dtype(parameter: Parameter, dtype: torch.dtype) -> torch.dtype:
    """float32 for vectors (norms and biases), which are small and set the accuracy; ``dtype`` for all others.

    Integers are stored as the inputs of a step are.
    """
    if parameter.dtype == "int32":
        return torch.int64
    return torch.float32 if len(parameter.shape) < 2 else dtype


def stored_bytes(parameter: Parameter, dtype: torch.dtype) -> int:
    """Bytes of ``parameter`` on the device."""
    return prod(parameter.sizes) * storage_dtype(parameter, dtype).itemsize


def load_weight(weight: Weight, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Decode ``weight`` and put it on ``device``. Never shares memory with a read-only file map."""
    values = np.require(weight.dequantize(), np.float32, ["C_CONTIGUOUS", "WRITEABLE"])
    return torch.from_numpy(values).to(device, dtype)
