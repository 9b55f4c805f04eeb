from __future__ import annotations

import os
import shutil
from typing import Any

from modelhost.plugins import boot
from modelhost.plugins.discovery import discover, normalize

DECLARES = """
from modelhost.api import ToolParser, hookimpl
API = (1, 0)
@hookimpl
def modelhost_tool_parsers():
    yield ToolParser("{id}", target="{id}:Parser")
"""


def test_core_declares_through_the_same_entry_points(site: Any) -> None:
    registry = site.boot()
    (core,) = registry.plugins
    assert (core.entry_point, core.distribution, core.version, core.state) == ("core", "modelhost", "0.1.0", "ok")
    assert core.ids["backend"] == ("reference",)
    assert "q4_k" in core.ids["encoding"]
    assert registry.find("backend", "reference").record.fallback
    assert registry.warnings == ()


def test_two_distributions_with_one_entry_point_name_are_both_seen(site: Any) -> None:
    for owner in ("one", "two"):
        module = f"plugin_{owner}"
        site.install(f"modelhost-{owner}", "1.0", {"same": module}, {module: DECLARES.format(id=owner)})
    registry = site.boot()
    assert [(plugin.distribution, plugin.entry_point) for plugin in registry.plugins[1:]] == [
        ("modelhost-one", "same"),
        ("modelhost-two", "same"),
    ]
    assert set(registry.of("tool parser")) == {"one", "two"}


def test_editable_over_wheel_counts_once(site: Any, tmp_path: Any) -> None:
    site.install("modelhost-one", "1.0", {"one": "plugin_one"}, {"plugin_one": DECLARES.format(id="one")})
    source = tmp_path / "editable"
    shutil.copytree(site.directory / "modelhost_one-1.0.dist-info", source / "modelhost_one-1.1.dist-info")
    (source / "modelhost_one-1.1.dist-info" / "METADATA").write_text("Name: Modelhost_One\nVersion: 1.1\n")
    (source / "modelhost_one-1.1.dist-info" / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    found = [one for one in discover([str(source), str(site.directory)]) if one.entry_point == "one"]
    assert [(one.distribution, one.version, one.editable) for one in found] == [("modelhost-one", "1.1", True)]


def test_lib_and_lib64_count_once(site: Any, tmp_path: Any) -> None:
    site.backend("fast")
    alias = tmp_path / "lib64"
    os.symlink(site.directory, alias)
    registry = boot(path=[str(site.directory), str(alias)])
    assert [plugin.distribution for plugin in registry.plugins] == ["modelhost", "modelhost-fast"]
    assert set(registry.of("backend")) == {"reference", "fast"}


def test_copies_of_a_distribution_that_disagree_are_reported(site: Any, tmp_path: Any) -> None:
    first = site.install("modelhost-one", "1.0", {"one": "plugin_one"}, {"plugin_one": DECLARES.format(id="one")})
    second = tmp_path / "old" / "modelhost_one-0.9.dist-info"
    shutil.copytree(first, second)
    (second / "METADATA").write_text("Name: modelhost-one\nVersion: 0.9\n")
    (second / "entry_points.txt").write_text("[modelhost]\none = gone\n")
    registry = boot(path=[str(site.directory), str(second.parent)])
    good, bad = registry.plugins[1:]
    assert (good.version, good.state) == ("1.0", "ok")
    assert bad.state == "broken"
    assert bad.error == (
        "modelhost-one 0.9 (entry point 'one') is broken: the distribution is installed twice and the copies disagree: "
        f"'one' is 'plugin_one' in {first} and 'gone' in {second}. Remove it with: pip uninstall modelhost-one"
    )


def test_unreadable_entry_points_do_not_stop_the_others(site: Any) -> None:
    info = site.install("modelhost-torn", "1.0")
    (info / "entry_points.txt").write_bytes(b"[modelhost]\n\xff\xfe = x\n")
    site.backend("fast")
    registry = site.boot()
    torn = next(plugin for plugin in registry.plugins if plugin.distribution == "modelhost-torn")
    assert torn.state == "broken"
    assert torn.error is not None
    assert f"entry_points.txt in {info} cannot be read: UnicodeDecodeError" in torn.error
    assert torn.error.endswith("Remove it with: pip uninstall modelhost-torn")
    assert set(registry.of("backend")) == {"reference", "fast"}


def test_only_the_group_modelhost_counts(site: Any) -> None:
    info = site.install("other", "1.0")
    (info / "entry_points.txt").write_text("[console_scripts]\nmodelhost = a:b\n[modelhost.extra]\nx = y\n")
    assert [plugin.distribution for plugin in site.boot().plugins] == ["modelhost"]


def test_metadata_is_read_from_its_head(site: Any) -> None:
    info = site.install("modelhost-one", "1.0", {"one": "absent"})
    (info / "METADATA").write_text("Name: modelhost-one\nVersion: 1.0\n\nUsage\n\nName: wrong\nVersion: 9\n")
    found = next(one for one in discover([str(site.directory)]) if one.entry_point == "one")
    assert (found.distribution, found.version, found.editable) == ("modelhost-one", "1.0", False)


def test_a_host_without_entry_points_says_so(tmp_path: Any) -> None:
    registry = boot(path=[str(tmp_path)])
    assert registry.plugins == ()
    assert registry.warnings == (
        "modelhost has no entry points of its own: it is not installed properly. Run: pip install modelhost",
    )


def test_names_are_normalised() -> None:
    assert normalize("Modelhost._Qwen") == "modelhost-qwen"
