"""Installs and removes plugins with the pip of this environment. Imports no plugin, so it works with broken ones."""

from __future__ import annotations

from .changes import Change, changes_of, refusal
from .names import installed_plugin, requirement
from .pip import Pip, Report

__all__ = ["Change", "Pip", "Report", "changes_of", "installed_plugin", "refusal", "requirement"]
