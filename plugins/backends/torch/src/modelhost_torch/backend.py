"""The backend object: what it can compute, how much memory that takes, and compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from modelhost.api.backend import CacheLayout, DType, Graph, Operation, Parameter, Weight

from .device import free_memory, resolve_device, resolve_dtype
from .executable import TorchExecutable
from .kernels import is_native
from .settings import TorchSettings
from .weights import stored_bytes
from .workspace import workspace_bytes


class TorchBackend:
    """PyTorch, op by op, on any device that it has.

    Matrix products and attention are computed in ``dtype``; norms, rotary tables, rotations and softmax in float32,
    rounded once. Weights are decoded at load: matrices to ``dtype``, vectors to float32.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"xpu"``.
        dtype: of activations, caches and matrices.
        settings: with ``threads`` the number of threads of PyTorch is set, for the whole process.

    Raises:
        UnsupportedError: the device is unknown or absent, or the dtype is not one of float32, bfloat16, float16.
    """

    name = "torch"

    def __init__(self, *, device: str = "cpu", dtype: DType = "float32", settings: TorchSettings | None = None) -> None:
        self._dtype = resolve_dtype(dtype)
        self._device = resolve_device(device)
        self.device = str(self._device)
        self.dtype: DType = dtype
        if settings is not None and settings.threads is not None:
            torch.set_num_threads(settings.threads)

    def native(self, op: Operation[..., Any]) -> bool:
        return is_native(op)

    def resident_bytes(self, parameter: Parameter, encoding: str, encoded_bytes: int) -> int:
        return stored_bytes(parameter, self._dtype)

    def workspace_bytes(self, graph: Graph, sizes: Mapping[str, int]) -> int:
        return workspace_bytes(graph, sizes, self._device)

    def free_memory(self) -> int:
        return free_memory(self._device)

    def compile(self, graph: Graph, load: Callable[[Parameter], Weight], cache: CacheLayout) -> TorchExecutable:
        return TorchExecutable(graph, load, cache, self._device, self._dtype)
