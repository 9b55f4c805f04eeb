"""Generation with the method and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from modelhost_bigram.bigram import Bigram

from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.speculator import speculator_checks


@pytest.mark.parametrize("check", speculator_checks(Bigram))
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()
