"""Our own plugins pass the hygiene kit, as everybody's should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelhost.testing.hygiene import hygiene_checks

PLUGINS = Path(__file__).parents[2] / "plugins"
CHECKS = [
    pytest.param(check.values[0], id=f"{file.parent.name}-{check.id}")
    for file in sorted(PLUGINS.glob("*/*/pyproject.toml"))
    for check in hygiene_checks(file.parent)
]


@pytest.mark.parametrize("check", CHECKS)
def test_hygiene(check: Callable[[], None]) -> None:
    check()
