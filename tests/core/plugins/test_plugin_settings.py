from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelhost.api import ConfigError
from modelhost.api.system import cache_directory
from modelhost.plugins import HostSettings, boot, load_settings, plugin_settings, takes_setting


def load(directory: Path, text: str | None = None, **environment: str) -> HostSettings:
    if text is not None:
        (directory / "modelhost.toml").write_text(text)
    return load_settings(directory, environment, directory / "user")


def test_nothing_set(tmp_path: Path) -> None:
    assert load(tmp_path, XDG_CACHE_HOME="caches", LOCALAPPDATA="caches") == HostSettings(
        cache=cache_directory({"XDG_CACHE_HOME": "caches", "LOCALAPPDATA": "caches"})
    )


@pytest.mark.parametrize("value", ["0", ""])
def test_the_cache_of_declarations_can_be_switched_off_and_moved(tmp_path: Path, value: str) -> None:
    assert load(tmp_path, MODELHOST_PLUGIN_CACHE=value).cache is None
    assert load(tmp_path, MODELHOST_CACHE="elsewhere").cache == Path("elsewhere")


def test_the_time_limit(tmp_path: Path) -> None:
    assert load(tmp_path).timeout == 10.0
    assert load(tmp_path, "[plugins]\ntimeout = 2\n").timeout == 2.0
    assert load(tmp_path, MODELHOST_PLUGIN_TIMEOUT="0.5").timeout == 0.5


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf", "nan", ""])
def test_a_time_limit_in_the_environment_that_is_none(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="MODELHOST_PLUGIN_TIMEOUT must be a number of seconds above 0, got"):
        load(tmp_path, MODELHOST_PLUGIN_TIMEOUT=value)


def test_the_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[plugins]\nenable = ["a"]\ndisable = ["b"]\nreplace = ["c:d"]\n[plugin.torch]\nthreads = 4\n',
    )
    assert (settings.enable, settings.disable, settings.replace) == (("a",), ("b",), ("c:d",))
    assert settings.plugin == {"torch": {"threads": 4}}
    assert settings.source("disable") == f"plugins.disable of {tmp_path / 'modelhost.toml'}"


def test_the_current_directory_goes_before_the_users(tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "modelhost.toml").write_text('[plugins]\ndisable = ["of_user"]\n')
    assert load(tmp_path).disable == ("of_user",)
    assert load(tmp_path, '[plugins]\ndisable = ["of_directory"]\n').disable == ("of_directory",)


def test_the_users_directory(tmp_path: Path) -> None:
    (tmp_path / "modelhost").mkdir()
    (tmp_path / "modelhost" / "modelhost.toml").write_text('[plugins]\ndisable = ["x"]\n')
    (tmp_path / "empty").mkdir()
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path)}
    assert load_settings(tmp_path / "empty", environment).disable == ("x",)


def test_the_environment(tmp_path: Path) -> None:
    text = '[plugins]\nenable = ["a"]\ndisable = ["b"]\nreplace = ["c:d"]\n'
    settings = load(tmp_path, text, MODELHOST_PLUGINS="x, y", MODELHOST_DISABLE_PLUGINS="z", MODELHOST_REPLACE="e:f")
    assert (settings.enable, settings.disable, settings.replace) == (("x", "y"), ("b", "z"), ("c:d", "e:f"))
    assert settings.source("enable") == "MODELHOST_PLUGINS"
    assert load(tmp_path, text, MODELHOST_PLUGINS="").enable == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[plugins]\nenabel = []\n", "unknown key plugins.enabel; did you mean plugins.enable?"),
        ("[pluggins]\n", "unknown key pluggins; did you mean plugins?"),
        ('[plugins]\ndisable = "x"\n', "plugins.disable must be a list of strings, got 'x'"),
        ("[plugins]\nenable = [1]\n", "plugins.enable must be a list of strings, got [1]"),
        ("plugins = 1\n", "plugins must be a table, got 1"),
        ("[plugin]\ntorch = 1\n", "plugin.torch must be a table, got 1"),
        ("[plugins]\ntimeout = true\n", "plugins.timeout must be a number of seconds above 0, got True"),
        ("plugin = []\n", "plugin must be a table, got []"),
    ],
)
def test_bad_keys_and_values_are_named_with_their_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert str(raised.value) == f"{tmp_path / 'modelhost.toml'}: {message}"


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "[plugins\n")
    assert str(raised.value).startswith(f"{tmp_path / 'modelhost.toml'}: cannot be read as TOML: Expected ']'")


def test_modelhost_itself_cannot_be_disabled(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, '[plugins]\ndisable = ["core"]\n')
    assert str(raised.value) == (
        f"plugins.disable of {tmp_path / 'modelhost.toml'}: 'core' is modelhost itself and cannot be disabled"
    )


def test_boot_reads_file_and_environment(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.backend("one")
    site.backend("two")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    for variable in ("MODELHOST_PLUGINS", "MODELHOST_DISABLE_PLUGINS", "MODELHOST_REPLACE"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "modelhost.toml").write_text('[plugins]\ndisable = ["one"]\n')
    path = [str(site.directory)]
    assert set(boot(path=path).of("backend")) == {"reference", "two"}
    monkeypatch.setenv("MODELHOST_DISABLE_PLUGINS", "two")
    registry = boot(path=path)
    assert set(registry.of("backend")) == {"reference"}
    assert registry.plugins[2].error == (
        "modelhost-two 1.0 is disabled: 'two' is in MODELHOST_DISABLE_PLUGINS or plugins.disable of "
        f"{tmp_path / 'modelhost.toml'}"
    )
    monkeypatch.setenv("MODELHOST_DISABLE_PLUGINS", "")
    monkeypatch.setenv("MODELHOST_PLUGINS", "")
    assert set(boot(path=path).of("backend")) == {"reference"}


MODEL = """
from pydantic import BaseModel, Field
class Settings(BaseModel):
    threads: int = 1
    pin_to: str = Field("none", alias="pin")
class Impl: pass
"""


def with_settings(site: Any, **table: object) -> Any:
    site.backend("fast", 'settings="modelhost_fast.impl:Settings"', impl=MODEL)
    registry = site.boot(plugin={"fast": table}, sources={"plugin": "modelhost.toml"})
    return plugin_settings(registry, registry.find("backend", "fast"))


def test_settings_of_a_record(site: Any) -> None:
    settings = with_settings(site, threads=4, pin="cores")
    assert (settings.threads, settings.pin_to) == (4, "cores")


def test_settings_default_when_there_is_no_table(site: Any) -> None:
    site.backend("fast", 'settings="modelhost_fast.impl:Settings"', impl=MODEL)
    registry = site.boot()
    assert plugin_settings(registry, registry.find("backend", "fast")).threads == 1


def test_no_settings_of_a_record_that_takes_none(site: Any) -> None:
    site.backend("plain")
    registry = site.boot()
    assert plugin_settings(registry, registry.find("backend", "plain")) is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"thread": 4}, "modelhost.toml: unknown key plugin.fast.thread; did you mean plugin.fast.threads?"),
        (
            {"threads": "many"},
            "modelhost.toml: plugin.fast.threads: Input should be a valid integer, unable to parse string as an "
            "integer, got 'many'",
        ),
    ],
)
def test_bad_settings_of_a_record(site: Any, table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        with_settings(site, **table)
    assert str(raised.value) == message


def test_settings_for_a_record_that_takes_none(site: Any) -> None:
    site.backend("plain")
    registry = site.boot(plugin={"plain": {"threads": 1}}, sources={"plugin": "modelhost.toml"})
    with pytest.raises(ConfigError) as raised:
        plugin_settings(registry, registry.find("backend", "plain"))
    assert str(raised.value) == "modelhost.toml: plugin.plain: backend 'plain' takes no settings"
    with pytest.raises(ConfigError, match=r"^engine: backend 'plain' takes no settings$"):
        plugin_settings(registry, registry.find("backend", "plain"), {"threads": 2}, "engine")


@pytest.mark.parametrize(
    ("table", "stated", "message"),
    [
        ({"threads": "many"}, {"pin": "cores"}, "modelhost.toml: plugin.fast.threads: Input should be a valid integer"),
        ({"pin": "cores"}, {"threads": "many"}, "engine.threads: Input should be a valid integer"),
        ({"thread": 1}, {"pin": "cores"}, "modelhost.toml: unknown key plugin.fast.thread; did you mean plugin.fast.t"),
        ({"pin": "cores"}, {"thread": 1}, "unknown key engine.thread; did you mean engine.threads?"),
    ],
)
def test_errors_name_the_place_where_a_setting_was_stated(
    site: Any, table: dict[str, object], stated: dict[str, object], message: str
) -> None:
    site.backend("fast", 'settings="modelhost_fast.impl:Settings"', impl=MODEL)
    registry = site.boot(plugin={"fast": table}, sources={"plugin": "modelhost.toml"})
    with pytest.raises(ConfigError) as raised:
        plugin_settings(registry, registry.find("backend", "fast"), stated, "engine")
    assert str(raised.value).startswith(message)


def test_settings_stated_elsewhere_override_the_file(site: Any) -> None:
    site.backend("fast", 'settings="modelhost_fast.impl:Settings"', impl=MODEL)
    registry = site.boot(plugin={"fast": {"threads": 4, "pin": "cores"}})
    settings = plugin_settings(registry, registry.find("backend", "fast"), {"threads": 2}, "engine")
    assert (settings.threads, settings.pin_to) == (2, "cores")


def test_what_a_record_takes(site: Any) -> None:
    site.backend("fast", 'settings="modelhost_fast.impl:Settings"', impl=MODEL)
    site.backend("plain")
    backends = site.boot().of("backend")
    assert [takes_setting(backends["fast"], key) for key in ("threads", "pin", "pin_to", "x")] == [
        True,
        True,
        False,
        False,
    ]
    assert not takes_setting(backends["plain"], "threads")


def test_settings_for_a_record_that_nobody_declares(site: Any) -> None:
    registry = site.boot(plugin={"refrence": {"threads": 1}}, sources={"plugin": "modelhost.toml"})
    assert registry.warnings == (
        "modelhost.toml: plugin.refrence: no plugin in use declares 'refrence'; did you mean plugin.reference?",
    )
