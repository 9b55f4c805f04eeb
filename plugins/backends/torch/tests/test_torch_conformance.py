"""The conformance kit in every dtype, on the CPU and on the accelerator that PyTorch finds, if any."""

from __future__ import annotations

import pytest
import torch
from modelhost_torch.backend import TorchBackend

from modelhost.api.backend import DType
from modelhost.testing.backend import BackendCheck, backend_checks


def _devices() -> list[str]:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ["cpu", accelerator.type] if accelerator is not None else ["cpu"]


def _checks(dtype: DType) -> list[object]:
    return [
        pytest.param(*parameter.values, id=f"{device}-{parameter.id}")
        for device in _devices()
        for parameter in backend_checks(TorchBackend, device=device, dtype=dtype)
    ]


@pytest.mark.parametrize("check", _checks("float32"))
def test_float32(check: BackendCheck) -> None:
    check()


@pytest.mark.parametrize("check", _checks("bfloat16"))
def test_bfloat16(check: BackendCheck) -> None:
    check()


@pytest.mark.parametrize("check", _checks("float16"))
def test_float16(check: BackendCheck) -> None:
    check()
