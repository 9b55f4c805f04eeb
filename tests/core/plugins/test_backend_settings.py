"""Settings of a backend that the engine's configuration states."""

from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import ConfigError
from modelhost.engine.config import EngineConfig
from modelhost.loading import create_backend
from modelhost.plugins import HostSettings, boot, select_backend

IMPL = """
from pydantic import BaseModel, Field

class Settings(BaseModel):
    threads: int = Field(default=1, le=8)
    deterministic: bool = False

class ThreadsOnly(BaseModel):
    threads: int = 1

class Impl:
    def __init__(self, *, device, dtype, settings):
        self.settings = settings
"""


def created(site: Any, model: str | None = "Settings", table: dict[str, object] | None = None, **stated: Any) -> Any:
    """The settings that backend ``fast`` gets."""
    site.backend("fast", f'settings="modelhost_fast.impl:{model}"' if model else "", impl=IMPL)
    registry = site.boot(plugin={"fast": table} if table else {}, sources={"plugin": "modelhost.toml"})
    return create_backend(select_backend(registry, "fast"), registry, EngineConfig.parse(**stated)).settings


def test_what_was_stated_reaches_the_backend(site: Any) -> None:
    settings = created(site, threads=3, deterministic=True)
    assert (settings.threads, settings.deterministic) == (3, True)


def test_nothing_stated(site: Any) -> None:
    settings = created(site)
    assert (settings.threads, settings.deterministic) == (1, False)


def test_the_file_counts_where_nothing_was_stated(site: Any) -> None:
    settings = created(site, table={"threads": 4, "deterministic": True})
    assert (settings.threads, settings.deterministic) == (4, True)


def test_what_was_stated_goes_before_the_file(site: Any) -> None:
    settings = created(site, table={"threads": 4, "deterministic": True}, threads=2)
    assert (settings.threads, settings.deterministic) == (2, True)


@pytest.mark.parametrize(
    ("model", "stated", "options"),
    [
        (None, {"threads": 2}, "no --threads"),
        (None, {"threads": 2, "deterministic": True}, "no --threads and no --deterministic"),
        ("ThreadsOnly", {"threads": 2, "deterministic": True}, "no --deterministic"),
    ],
)
def test_a_setting_that_the_backend_does_not_take(
    site: Any, model: str | None, stated: dict[str, Any], options: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        created(site, model, **stated)
    assert str(raised.value) == f"backend 'fast' takes {options}; leave that out or choose another backend"


@pytest.mark.parametrize(("backend", "option"), [("reference", "threads"), ("torch", "deterministic")])
def test_what_the_backends_here_do_not_take(backend: str, option: str) -> None:
    registry = boot(settings=HostSettings())
    with pytest.raises(ConfigError, match=f"^backend '{backend}' takes no --{option}; "):
        create_backend(select_backend(registry, backend), registry, EngineConfig(**{option: True}))


def test_no_settings_for_a_backend_that_takes_none(site: Any) -> None:
    assert created(site, None) is None


def test_a_value_that_the_backend_does_not_allow(site: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        created(site, table={"deterministic": True}, threads=9)
    assert str(raised.value) == "engine.threads: Input should be less than or equal to 8, got 9"
