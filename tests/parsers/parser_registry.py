"""The plugins that are installed, with all parser packages of this tree."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from golden_cases import PLUGINS

from modelhost.plugins import Registration, Registry, boot
from modelhost.plugins.registry import KINDS

_HOOKS = ("modelhost_tool_parsers", "modelhost_reasoning_parsers")


@cache
def registry_with_parsers() -> Registry:
    """A registry in which every parser of the tree is declared by the package that it is in."""
    installed = boot()
    present = [one for kind in KINDS for claims in installed.claims(kind).values() for one in claims]
    taken = {(one.kind, one.id) for one in present}
    added = [one for one in in_the_tree() if (one.kind, one.id) not in taken]
    return Registry(installed.plugins, [*present, *added], installed.settings)


@cache
def in_the_tree() -> tuple[Registration[Any], ...]:
    """The registrations of all parser packages under plugins/parsers."""
    found = []
    for declaration in sorted(PLUGINS.glob("*/src/*/plugin.py")):
        source, package = declaration.parent.parent, declaration.parent.name
        if str(source) not in sys.path:
            sys.path.insert(0, str(source))
        module = import_module(f"{package}.plugin")
        distribution = package.replace("_", "-")
        for hook in _HOOKS:
            for record in getattr(module, hook, tuple)():
                name = f"{package}.plugin"
                found.append(Registration(record, distribution, "0.1.0", package, name, str(declaration), module.API))
    return tuple(found)
