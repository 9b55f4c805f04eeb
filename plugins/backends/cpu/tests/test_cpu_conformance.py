"""The conformance kit in both dtypes: for every number of threads, and for older CPUs than this one."""

from __future__ import annotations

from typing import Any

import pytest
from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.machine import Isa, host_target

from modelhost.api import UnsupportedError
from modelhost.api.backend import DType
from modelhost.testing.backend import BackendCheck, backend_checks

OLDER: tuple[Isa, ...] = ("avx512", "avx2", "baseline")


EIGHT_BIT_TOLERANCE = 1.5e-2
"""Without AMX prompt tokens too are multiplied as 8-bit integers: each is off by up to 1/254 of the largest of 32."""


def _tolerance(dtype: DType, settings: dict[str, Any]) -> float | None:
    target = host_target().limited(settings["isa"]) if "isa" in settings else host_target()
    return None if dtype == "float32" or target.has("amx-bf16") else EIGHT_BIT_TOLERANCE


def _settings() -> list[dict[str, Any]]:
    settings: list[dict[str, Any]] = [{"threads": threads} for threads in (1, 2, 3)]
    for isa in OLDER:
        try:
            host_target().limited(isa)
        except UnsupportedError:
            continue
        settings.append({"threads": 2, "isa": isa})
    return settings


def _checks(dtype: DType) -> list[object]:
    return [
        pytest.param(*parameter.values, id=f"{'-'.join(map(str, settings.values()))}-{parameter.id}")
        for settings in _settings()
        for parameter in backend_checks(
            CpuBackend, dtype=dtype, tolerance=_tolerance(dtype, settings), batch_invariant=True, settings=settings
        )
    ]


@pytest.mark.parametrize("check", _checks("float32"))
def test_float32(check: BackendCheck) -> None:
    check()


@pytest.mark.parametrize("check", _checks("bfloat16"))
def test_bfloat16(check: BackendCheck) -> None:
    check()
