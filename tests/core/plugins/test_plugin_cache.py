"""Declarations kept on disk: used when nothing changed, never when anything did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelhost.api import HOOKS, Backend
from modelhost.plugins import PluginInfo, Registry, cache
from modelhost.plugins.cache_file import read_cache_file, write_cache_file
from modelhost.plugins.plain import from_plain, to_plain

LONG_AGO = 1_600_000_000


class CachedSite:
    """A site whose boots use a cache; each boot begins in a process that has imported none of its plugins."""

    def __init__(self, site: Any, directory: Path) -> None:
        self.site = site
        self.directory = directory

    def age(self) -> None:
        """Make every file old enough to be trusted."""
        for path in self.site.directory.rglob("*"):
            if path.is_file() and path.stat().st_mtime > LONG_AGO + 1000:
                os.utime(path, (LONG_AGO, LONG_AGO))

    def boot(self, *, refresh: bool = False, no_plugins: bool = False, **settings: Any) -> Registry:
        from modelhost.plugins import HostSettings, boot

        for name, module in list(sys.modules.items()):
            if str(self.site.directory) in str(getattr(module, "__file__", "")):
                del sys.modules[name]
        chosen = HostSettings(cache=self.directory, **settings)
        return boot(settings=chosen, path=[str(self.site.directory)], refresh=refresh, no_plugins=no_plugins)

    def cached(self, **options: Any) -> dict[str, bool]:
        return {plugin.entry_point: plugin.cached for plugin in self.boot(**options).plugins}

    @property
    def file(self) -> Path:
        [file] = self.directory.iterdir()
        return file


@pytest.fixture
def cached_site(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CachedSite:
    """Two plugins, old enough to be cached. The sources of modelhost count as old too, whoever works on them."""
    monkeypatch.setattr(cache, "STARTED_S", time.time() + 3600)
    site.backend("fast", 'devices=("cpu", "cuda"), priority=3')
    site.architecture("tiny", "TinyForCausalLM", 'gguf=("tiny", "small")')
    made = CachedSite(site, tmp_path / "cache")
    made.age()
    return made


def facts(registry: Registry) -> tuple[list[PluginInfo], list[Any]]:
    """All that is known, but for the time that it took and whether it came from the cache."""
    plugins = [replace(plugin, cached=False, import_ms=0.0) for plugin in registry.plugins]
    return plugins, [registry.all(kind) for kind in HOOKS.values()]


def test_the_second_start_imports_no_plugin_and_knows_the_same(cached_site: CachedSite) -> None:
    first = cached_site.boot()
    assert [plugin.cached for plugin in first.plugins] == [False, False, False]
    second = cached_site.boot()
    assert [plugin.cached for plugin in second.plugins] == [True, True, True]
    assert facts(first) == facts(second)
    assert second.plugins[1].import_ms == first.plugins[1].import_ms > 0
    assert not [name for name in sys.modules if name.startswith("modelhost_")]
    assert second.cache is not None
    assert (second.cache.used, second.cache.problem, Path(second.cache.file)) == (3, None, cached_site.file)


def test_refresh_imports_them_all(cached_site: CachedSite) -> None:
    cached_site.boot()
    assert set(cached_site.cached(refresh=True).values()) == {False}
    assert set(cached_site.cached().values()) == {True}


def test_without_a_directory_there_is_no_cache(cached_site: CachedSite) -> None:
    assert cached_site.site.boot().cache is None
    assert not cached_site.directory.exists()


def test_a_changed_source_is_read_again_and_only_that(cached_site: CachedSite) -> None:
    cached_site.boot()
    file = cached_site.site.directory / "modelhost_fast" / "plugin.py"
    file.write_text(file.read_text().replace("priority=3", "priority=4"))
    registry = cached_site.boot()
    assert {plugin.entry_point: plugin.cached for plugin in registry.plugins} == {
        "core": True,
        "fast": False,
        "tiny": True,
    }
    assert registry.find(Backend, "fast").record.priority == 4


def test_a_change_of_the_same_size_is_noticed(cached_site: CachedSite) -> None:
    cached_site.boot()
    file = cached_site.site.directory / "modelhost_fast" / "plugin.py"
    file.write_text(file.read_text().replace("priority=3", "priority=4"))
    os.utime(file, (LONG_AGO + 1, LONG_AGO + 1))
    assert cached_site.boot().find(Backend, "fast").record.priority == 4


def test_a_module_that_the_declaration_imports_counts(cached_site: CachedSite) -> None:
    site = cached_site.site
    body = "from .table import IDS\n@hookimpl\ndef modelhost_speculators():\n"
    body += "    return [Speculator(id, target='m:A') for id in IDS]\n"
    site.plugin("listed", body, table="IDS = ['a']\n")
    cached_site.age()
    cached_site.boot()
    assert cached_site.cached()["listed"]
    (site.directory / "modelhost_listed" / "table.py").write_text("IDS = ['a', 'b']\n")
    assert set(cached_site.boot().of("speculator")) == {"a", "b"}


def test_files_that_have_only_just_changed_are_not_trusted(
    cached_site: CachedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "STARTED_S", time.time())
    file = cached_site.site.directory / "modelhost_fast" / "plugin.py"
    file.write_text(file.read_text())
    cached_site.boot()
    cached = cached_site.cached()
    assert (cached["fast"], cached["tiny"]) == (False, True)


def test_what_changed_after_this_process_began_is_not_kept(
    cached_site: CachedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loaded module may be that of before the change."""
    monkeypatch.setattr(cache, "STARTED_S", LONG_AGO - 10)
    cached_site.boot()
    assert cached_site.cached()["fast"] is False
    monkeypatch.setattr(cache, "STARTED_S", LONG_AGO + 10)
    cached_site.boot()
    assert cached_site.cached()["fast"] is True


@pytest.mark.parametrize("name", ["METADATA", "RECORD", "direct_url.json", "entry_points.txt"])
def test_a_new_installation_is_read_again(cached_site: CachedSite, name: str) -> None:
    cached_site.boot()
    file = cached_site.site.directory / "modelhost_fast-1.0.dist-info" / name
    file.write_text((file.read_text() if file.exists() else "{}") + "\n")
    os.utime(file, (LONG_AGO + 5, LONG_AGO + 5))
    assert cached_site.cached() == {"core": True, "fast": False, "tiny": True}
    assert set(cached_site.cached().values()) == {True}


def test_an_upgrade_shows_the_new_version(cached_site: CachedSite) -> None:
    cached_site.boot()
    old = cached_site.site.directory / "modelhost_fast-1.0.dist-info"
    new = old.rename(old.with_name("modelhost_fast-2.0.dist-info"))
    (new / "METADATA").write_text("Name: modelhost-fast\nVersion: 2.0\n")
    plugin = next(one for one in cached_site.boot().plugins if one.entry_point == "fast")
    assert (plugin.version, plugin.cached) == ("2.0", False)


def test_installing_and_removing_leaves_the_rest_cached(cached_site: CachedSite) -> None:
    cached_site.boot()
    cached_site.site.backend("more")
    cached_site.age()
    assert cached_site.cached() == {"core": True, "fast": True, "more": False, "tiny": True}
    assert set(cached_site.cached().values()) == {True}
    (cached_site.site.directory / "modelhost_more-1.0.dist-info" / "entry_points.txt").unlink()
    assert cached_site.cached() == {"core": True, "fast": True, "tiny": True}


def test_a_plugin_that_is_shadowed_by_another_package_is_read_again(
    cached_site: CachedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_site.boot()
    package = tmp_path / "first" / "modelhost_fast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('another')\n")
    monkeypatch.syspath_prepend(str(package.parent))
    states = {plugin.entry_point: plugin.state for plugin in cached_site.boot().plugins}
    assert states == {"core": "ok", "fast": "broken", "tiny": "ok"}


def test_broken_plugins_are_tried_each_time(cached_site: CachedSite) -> None:
    cached_site.site.plugin("bad", "import a_module_to_come\n")
    cached_site.age()
    assert [plugin.state for plugin in cached_site.boot().plugins] == ["ok", "broken", "ok", "ok"]
    cached_site.site.write("a_module_to_come", "")
    assert [plugin.state for plugin in cached_site.boot().plugins] == ["ok", "ok", "ok", "ok"]


def test_one_that_hangs_costs_its_time_once(cached_site: CachedSite) -> None:
    file = cached_site.site.plugin("bad", "import time\nfor _ in range(500):\n    time.sleep(0.02)\n")
    cached_site.age()

    def bad(**options: Any) -> PluginInfo:
        return next(one for one in cached_site.boot(timeout=0.2, **options).plugins if one.entry_point == "bad")

    first, second = bad(), bad()
    assert (first.cached, second.cached, second.state, second.timed_out) == (False, True, "broken", True)
    assert second.error == (
        f"{first.error}. It is not tried again before its files change; to try now: modelhost plugins --refresh"
    )
    assert not bad(refresh=True).cached
    file.write_text("API = (1, 0)\n")
    assert bad().state == "ok"


def test_disabled_plugins_stay_known(cached_site: CachedSite) -> None:
    cached_site.boot()
    cached_site.boot(no_plugins=True)
    cached_site.boot(disable=("fast",))
    assert set(cached_site.cached().values()) == {True}


def test_two_entry_points_for_one_module_are_told_apart_from_the_cache_too(cached_site: CachedSite) -> None:
    cached_site.site.install("modelhost-alias", "1.0", {"alias": "modelhost_fast.plugin"})
    cached_site.age()
    first, second = cached_site.boot(), cached_site.boot()
    assert [plugin.state for plugin in first.plugins] == ["ok", "ok", "broken", "ok"]
    assert facts(first) == facts(second)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("modelhost_fast.impl", "modelhost_evil.impl"),
        lambda text: "modelhost-cache 00000000\n[]",
        lambda text: "\x00\xff not a cache",
    ],
)
def test_a_damaged_file_is_ignored_and_made_again(cached_site: CachedSite, damage: Any) -> None:
    first = cached_site.boot()
    file = cached_site.file
    file.write_text(damage(file.read_text()))
    again = cached_site.boot()
    assert facts(again) == facts(first)
    assert not any(plugin.cached for plugin in again.plugins)
    assert again.cache is not None
    assert again.cache.problem == "not used: it is damaged"
    assert set(cached_site.cached().values()) == {True}


def rewritten(file: Path, **changes: Any) -> None:
    write_cache_file(file, read_cache_file(file) | changes)


def change_each_entry(file: Path, **changes: Any) -> None:
    declared = {name: entry | changes for name, entry in read_cache_file(file)["declared"].items()}
    rewritten(file, declared=declared)


@pytest.mark.parametrize(
    "changes",
    [
        {"records": [["backend", {"id": "fast"}]]},
        {"records": [["no such kind", {"id": "fast", "target": "m:A"}]]},
        {"records": [["backend", {"id": "fast", "target": "not a target"}]]},
        {"records": [["backend", {"id": "fast", "target": "m:A", "of_the_future": 1}]]},
        {"records": 3},
        {"api": [99, 0]},
        {"api": "no"},
        {"files": [["a"]]},
        {"files": None},
        {"import_ms": "quick"},
    ],
)
def test_entries_that_make_no_sense_are_read_again(cached_site: CachedSite, changes: dict[str, Any]) -> None:
    first = cached_site.boot()
    change_each_entry(cached_site.file, **changes)
    again = cached_site.boot()
    assert facts(again) == facts(first)
    assert not any(plugin.cached for plugin in again.plugins)


@pytest.mark.parametrize("changes", [{"declared": []}, {"declared": {"x": 1}}, {"found": 1}, {"metadata": [[1]]}])
def test_a_file_of_another_shape_is_ignored(cached_site: CachedSite, changes: dict[str, Any]) -> None:
    first = cached_site.boot()
    rewritten(cached_site.file, **changes)
    assert facts(cached_site.boot()) == facts(first)


def test_the_api_number_of_the_host_is_part_of_the_key(
    cached_site: CachedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_site.boot()
    monkeypatch.setattr(cache, "API", (1, 1))
    assert set(cached_site.cached().values()) == {False}


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_a_file_that_others_can_write_to_is_not_trusted(cached_site: CachedSite) -> None:
    cached_site.boot()
    cached_site.file.chmod(0o666)
    registry = cached_site.boot()
    assert not any(plugin.cached for plugin in registry.plugins)
    assert registry.cache is not None
    assert registry.cache.problem == "not used: it belongs to another user or others can write to it"
    assert cached_site.file.stat().st_mode & 0o777 == 0o600


def test_a_directory_that_cannot_be_made_harms_nothing(cached_site: CachedSite) -> None:
    cached_site.directory.write_text("a file is in the way")
    registry = cached_site.boot()
    assert {plugin.state for plugin in registry.plugins} == {"ok"}
    assert registry.cache is not None
    assert registry.cache.problem is not None
    assert registry.cache.problem.startswith("cannot be written: ")


def test_writers_at_the_same_time_leave_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "cache.json"

    def write_and_read(number: int) -> int:
        write_cache_file(file, {"number": number, "filling": "x" * 10_000 * (number % 7)})
        data = read_cache_file(file)
        assert len(data["filling"]) == 10_000 * (data["number"] % 7)
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write_and_read, range(64))) == list(range(64))
    assert [path.name for path in tmp_path.iterdir()] == ["cache.json"]


def test_processes_at_the_same_time(cached_site: CachedSite) -> None:
    code = (
        "import sys; from pathlib import Path; from modelhost.plugins import HostSettings, boot; "
        "r = boot(settings=HostSettings(cache=Path(sys.argv[1])), path=[sys.argv[2]]); "
        "print(sorted(r.of('backend')), r.cache.problem)"
    )
    command = [sys.executable, "-c", code, str(cached_site.directory), str(cached_site.site.directory)]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {process.communicate()[0] for process in running} == {"['fast', 'reference'] None\n"}
    cached = cached_site.cached()
    assert (cached["fast"], cached["tiny"]) == (True, True)


@pytest.mark.parametrize("kind", HOOKS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_of_record_survives_the_way_to_disk(kind: Any) -> None:
    record = kind("some-id", target="package.module:Name", replaces="dist:id", settings="package.module:Settings")
    assert from_plain(kind.kind, json.loads(json.dumps(to_plain(record)))) == record


def test_lists_in_a_record_are_tuples_to_the_host(site: Any) -> None:
    site.backend("fast", 'devices=["cpu", "cuda"]')
    assert site.boot().find("backend", "fast").record.devices == ("cpu", "cuda")


def test_a_record_must_be_plain_data(site: Any) -> None:
    file = site.backend("bad", "encodings={'q4_k'}")
    assert site.info("bad").error == (
        "modelhost-bad 1.0 (entry point 'bad') is broken: backend 'bad': encodings must be plain data (texts, numbers, "
        f"tuples), got {{'q4_k'}} ({file}:4). Remove it with: pip uninstall modelhost-bad"
    )


def test_a_record_of_a_class_of_its_own_is_refused(site: Any) -> None:
    body = "class Special(Backend): pass\n@hookimpl\ndef modelhost_backends():\n    yield Special('s', target='m:A')\n"
    site.plugin("bad", body)
    assert "modelhost_backends() yielded Special(id='s', " in site.info("bad").error
