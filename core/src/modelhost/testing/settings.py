"""The settings of a backend under test, in the form that the host hands them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelhost.api import Backend
from modelhost.api.backend import KernelBackend
from modelhost.plugins import HostSettings, Registration, Registry, boot, load_target, plugin_settings


def settings_of(make_backend: Callable[..., KernelBackend], settings: Mapping[str, Any]) -> Any:
    """An instance of the settings model of the backend whose record has ``make_backend`` as its target.

    The record is looked for in the installed plugins. The user's ``modelhost.toml`` has no say.

    Raises:
        ValueError: there is no such record.
        ConfigError: its settings model refuses ``settings``, or it has none.
    """
    registry = boot(settings=HostSettings())
    return plugin_settings(registry, _record(registry, make_backend), settings, "settings")


def _record(registry: Registry, make_backend: Callable[..., KernelBackend]) -> Registration[Backend]:
    package = make_backend.__module__.partition(".")[0]
    for registration in registry.all(Backend):
        module, _, _ = registration.record.target.partition(":")
        if module.partition(".")[0] == package and load_target(registration) is make_backend:
            return registration
    raise ValueError(f"settings are given, and no installed plugin declares a backend with target {make_backend!r}")
