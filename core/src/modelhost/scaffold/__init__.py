"""New plugin packages, made from templates."""

from __future__ import annotations

from .names import KINDS, PluginName
from .write import write_plugin

__all__ = ["KINDS", "PluginName", "write_plugin"]
