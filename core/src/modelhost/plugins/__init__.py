"""The plugin host: discovery, validation, selection and explanation of plugins."""

from __future__ import annotations

from . import files as files  # notes the time
from .candidate import Candidate, Selection
from .host import boot
from .info import PluginInfo, Registration
from .loading import load_target, plugin_settings, takes_setting
from .parser_selection import ModelTraits, ParserSelection, select_parser
from .plan import Plan, PlannedTarget
from .registry import Registry
from .selection import BackendSelection, select, select_architecture, select_backend
from .settings import HostSettings, load_settings

__all__ = [
    "BackendSelection",
    "Candidate",
    "HostSettings",
    "ModelTraits",
    "ParserSelection",
    "Plan",
    "PlannedTarget",
    "PluginInfo",
    "Registration",
    "Registry",
    "Selection",
    "boot",
    "load_settings",
    "load_target",
    "plugin_settings",
    "select",
    "select_architecture",
    "select_backend",
    "select_parser",
    "takes_setting",
]
