"""Checks as parameters of a pytest test, with those that are known to fail marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def parametrize(checks: Mapping[str, Callable[[], None]], expected_failures: Mapping[str, str] | None) -> list[Any]:
    """One ``pytest.param`` for each check, with its name as id.

    Args:
        checks: functions that raise when the check fails, by name.
        expected_failures: name of a check to the reason why it fails. Such a check must fail.

    Raises:
        ValueError: ``expected_failures`` names a check that does not exist.
    """
    import pytest

    reasons = dict(expected_failures or {})
    unknown = sorted(set(reasons) - set(checks))
    if unknown:
        raise ValueError(f"expected_failures names checks that do not exist: {', '.join(unknown)}")
    marks = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in reasons.items()}
    return [pytest.param(check, id=name, marks=marks.get(name, [])) for name, check in checks.items()]
