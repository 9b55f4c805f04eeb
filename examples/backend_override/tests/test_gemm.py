"""The backend against the reference, and what it is for: speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from modelhost_gemm.backend import GemmBackend, linear

from modelhost.api.reference import ReferenceBackend
from modelhost.testing.backend import backend_checks
from modelhost.testing.hygiene import hygiene_checks


@pytest.mark.parametrize("check", backend_checks(GemmBackend, device="cpu", dtype="float32", batch_invariant=False))
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()


def test_a_prompt_is_faster() -> None:
    x, weight = (np.random.default_rng(0).standard_normal((512, 512), np.float32) for _ in range(2))

    def seconds(kernel: Callable[..., object]) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            kernel(x, weight, None)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(linear) < seconds(ReferenceBackend.kernels["linear"])
