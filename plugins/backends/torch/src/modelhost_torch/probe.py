"""Whether the backend can run, found out without importing PyTorch."""

from __future__ import annotations

from importlib.util import find_spec


def probe() -> str | None:
    """``None`` when PyTorch is installed, else what to do."""
    if find_spec("torch") is None:
        return "PyTorch is not installed; install it with: pip install torch"
    return None
