from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import PluginError
from modelhost.plugins import load_target

REMOVE = "Remove it with: pip uninstall modelhost-fast"


def load(site: Any, impl: str) -> Any:
    site.backend("fast", impl=impl)
    return load_target(site.boot().find("backend", "fast"))


def test_the_target_is_imported_on_selection_only(site: Any) -> None:
    import sys

    site.backend("fast")
    registration = site.boot().find("backend", "fast")
    assert "modelhost_fast.impl" not in sys.modules
    assert load_target(registration) is sys.modules["modelhost_fast.impl"].Impl


def test_a_nested_attribute(site: Any) -> None:
    site.backend("fast", impl="class Outer:\n    class Inner: pass\n")
    registration = site.boot().find("backend", "fast")
    assert load_target(registration, "modelhost_fast.impl:Outer.Inner").__name__ == "Inner"


@pytest.mark.parametrize(
    ("impl", "reason", "line"),
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", ":2"),
        ("import no_such_module_here\n", "it needs the module 'no_such_module_here', which is not installed", ":1"),
        ("from . import gone\n", "ImportError: cannot import name 'gone' from 'modelhost_fast' ({init})", ":1"),
        ("import modelhost_fast.gone\n", "its own module 'modelhost_fast.gone' is missing from the installation", ":1"),
        ("raise SystemExit\n", "SystemExit", ":1"),
        ("x = (\n", "SyntaxError: '(' was never closed (impl.py, line 1)", ":1"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_imported(site: Any, impl: str, reason: str, line: str) -> None:
    with pytest.raises(PluginError) as raised:
        load(site, impl)
    package = site.directory / "modelhost_fast"
    expected = reason.replace("{init}", str(package / "__init__.py"))
    assert str(raised.value) == (
        f"modelhost-fast 1.0, backend 'fast' is broken: modelhost_fast.impl:Impl cannot be imported: {expected} "
        f"({package / 'impl.py'}{line}). {REMOVE}"
    )
    assert raised.value.__cause__ is not None


def test_a_target_whose_module_is_missing(site: Any) -> None:
    file = site.plugin(
        "fast", "@hookimpl\ndef modelhost_backends():\n    yield Backend('fast', target='modelhost_fast.no:A')\n"
    )
    with pytest.raises(PluginError) as raised:
        load_target(site.boot().find("backend", "fast"))
    assert str(raised.value) == (
        "modelhost-fast 1.0, backend 'fast' is broken: modelhost_fast.no:A cannot be imported: its own module "
        f"'modelhost_fast.no' is missing from the installation ({file}). {REMOVE}"
    )


def test_a_target_without_the_attribute(site: Any) -> None:
    with pytest.raises(PluginError) as raised:
        load(site, "class Imp: pass\n")
    assert str(raised.value) == (
        "modelhost-fast 1.0, backend 'fast' is broken: modelhost_fast.impl has no attribute 'Impl'; "
        "did you mean 'Imp'? "
        f"({site.directory / 'modelhost_fast' / 'impl.py'}). {REMOVE}"
    )
