"""Devices and dtypes by name."""

from __future__ import annotations

from typing import Any

import torch

from modelhost.api import UnsupportedError
from modelhost.api.backend import DType, available_memory

DEVICES = ("cpu", "cuda", "mps", "xpu")
DTYPES: dict[DType, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""The dtypes of activations."""


def resolve_device(name: str) -> torch.device:
    """The device called ``name``, such as ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        UnsupportedError: the name has another form, or there is no such device here.
    """
    kind, colon, index = name.partition(":")
    if kind not in DEVICES or (colon and not index.isdecimal()):
        raise UnsupportedError(
            f"the torch backend does not know device {name!r}; it runs on {', '.join(DEVICES)}, "
            "with a number where there are several, such as cuda:1"
        )
    if kind == "cpu":
        return torch.device("cpu")
    count = _device_count(kind)
    if count == 0:
        raise UnsupportedError(
            f"device {name!r} is not available: PyTorch {torch.__version__} finds no {kind} device here; "
            "install a build of PyTorch for it, or use the device cpu"
        )
    if colon and int(index) >= count:
        raise UnsupportedError(
            f"device {name!r} is not available: the {kind} devices here are numbered 0 to {count - 1}"
        )
    return torch.device(name)


def _device_count(kind: str) -> int:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.accelerator.device_count() if accelerator is not None and accelerator.type == kind else 0


def resolve_dtype(name: str) -> torch.dtype:
    """The dtype called ``name``.

    Raises:
        UnsupportedError: activations cannot have it.
    """
    found = {str(key): dtype for key, dtype in DTYPES.items()}.get(name)
    if found is None:
        raise UnsupportedError(f"the torch backend computes in {', '.join(DTYPES)}, not in {name!r}")
    return found


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on ``device`` now, with what PyTorch's allocator holds but does not use."""
    if device.type == "cpu":
        return available_memory()
    module: Any = getattr(torch, device.type)
    if device.type == "mps":
        return max(0, int(module.recommended_max_memory()) - int(module.driver_allocated_memory()))
    free, _total = module.mem_get_info(device)
    return int(free) + int(module.memory_reserved(device)) - int(module.memory_allocated(device))
