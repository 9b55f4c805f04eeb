"""Fixtures that all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

# One BLAS thread: arrays are small here, and threads that wait for each other cost more than they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What plugins declare is read anew, not from what an earlier run left in the user's cache.
os.environ.setdefault("MODELHOST_PLUGIN_CACHE", "0")

_FETCH = Path(__file__).parent.parent / "scripts" / "fetch_checkpoint.py"


@cache
def _fetch(name: str) -> Path:
    result = subprocess.run([sys.executable, str(_FETCH), name], capture_output=True, text=True)
    if result.returncode:
        pytest.fail(f"checkpoint {name} cannot be had: {result.stderr}", pytrace=False)
    return Path(result.stdout.strip())


@pytest.fixture(scope="session")
def checkpoint_file() -> Callable[[str], Path]:
    """Path of a real checkpoint by name: ``smollm2``, ``gemma3`` or ``qwen2.5-coder``. Fails when it cannot be had."""
    return _fetch
