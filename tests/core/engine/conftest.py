from __future__ import annotations

import pytest

from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a complete tiny checkpoint."""
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))
