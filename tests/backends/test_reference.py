"""The reference backend passes the kit that it is the yardstick of; here its own promises are tested."""

from __future__ import annotations

import pytest

from modelhost.reference import ReferenceBackend
from modelhost.testing.backend import BackendCheck, backend_checks


@pytest.mark.parametrize("check", backend_checks(ReferenceBackend, batch_invariant=True))
def test_conformance(check: BackendCheck) -> None:
    check()
