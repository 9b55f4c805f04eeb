from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import Backend, PluginError


def two_of_one_id(site: Any, replaces: str = "") -> tuple[str, str]:
    return site.backend("one", version="1.1"), site.plugin(
        "two",
        f'@hookimpl\ndef modelhost_backends():\n    yield Backend("one", target="modelhost_two.impl:Impl"{replaces})\n',
        version="2.0",
    )


def test_kinds_are_texts_or_record_classes(site: Any) -> None:
    registry = site.boot()
    assert registry.of("backend") == registry.of(Backend)
    assert registry.find(Backend, "reference") is registry.find("backend", "reference")
    with pytest.raises(
        ValueError, match="there is no kind of record 'backends'; the kinds are architecture, backend, "
    ):
        registry.of("backends")


def test_a_duplicate_is_an_error_when_it_is_selected(site: Any) -> None:
    one, two = two_of_one_id(site)
    registry = site.boot()
    assert set(registry.of("backend")) == {"reference"}
    assert [plugin.notes for plugin in registry.plugins] == [
        (),
        ("duplicate: backend 'one' is also declared by modelhost-two 2.0",),
        ("duplicate: backend 'one' is also declared by modelhost-one 1.1",),
    ]
    with pytest.raises(PluginError) as raised:
        registry.find("backend", "one")
    assert str(raised.value) == (
        f"backend 'one' is declared by modelhost-one 1.1 ({one}) and modelhost-two 2.0 ({two}).\n"
        "Uninstall one: pip uninstall modelhost-one, or pip uninstall modelhost-two"
    )


REPLACES = ', replaces="Modelhost_One:one"'


def test_a_replacement_needs_the_users_consent(site: Any) -> None:
    two_of_one_id(site, REPLACES)
    with pytest.raises(PluginError) as raised:
        site.boot().find("backend", "one")
    assert str(raised.value).splitlines()[2] == (
        'Or let modelhost-two replace Modelhost_One:one: add replace = ["Modelhost_One:one"] to [plugins] in '
        "modelhost.toml, or set MODELHOST_REPLACE=Modelhost_One:one"
    )


@pytest.mark.parametrize("consent", ["modelhost-one:one", "Modelhost_One:one"])
def test_a_replacement_that_the_user_allowed(site: Any, consent: str) -> None:
    two_of_one_id(site, REPLACES)
    registry = site.boot(replace=(consent,))
    assert registry.find("backend", "one").distribution == "modelhost-two"
    assert registry.of("backend")["one"].distribution == "modelhost-two"
    assert [plugin.notes for plugin in registry.plugins[1:]] == [
        ("replaced: backend 'one' by that of modelhost-two 2.0",),
        ("replaces: backend 'one' of modelhost-one 1.1",),
    ]
    assert registry.warnings == ()


def test_consent_alone_replaces_nothing(site: Any) -> None:
    two_of_one_id(site)
    registry = site.boot(replace=("modelhost-one:one",))
    assert registry.warnings == ("plugins.replace: no plugin in use replaces 'modelhost-one:one'",)
    with pytest.raises(PluginError, match=r"backend 'one' is declared by modelhost-one 1\.1"):
        registry.find("backend", "one")


def test_two_replacements_of_one_record_are_a_duplicate(site: Any) -> None:
    site.backend("one")
    for name in ("two", "three"):
        site.backend(name, 'replaces="modelhost-one:one"')
    registry = site.boot(replace=("modelhost-one:one",))
    with pytest.raises(
        PluginError, match=r"backend 'one' is declared by modelhost-three 1\.0 .* and modelhost-two 1\.0 "
    ):
        registry.find("backend", "one")
    assert registry.find("backend", "two").distribution == "modelhost-two"


def test_a_replacement_under_another_id_answers_to_both(site: Any) -> None:
    site.backend("one")
    site.backend("faster", 'replaces="modelhost-one:one"')
    registry = site.boot(replace=("modelhost-one:one",))
    assert registry.find("backend", "one") is registry.find("backend", "faster")


def test_the_same_id_in_two_kinds_is_no_duplicate(site: Any) -> None:
    site.plugin(
        "q",
        "@hookimpl\ndef modelhost_tool_parsers():\n    yield ToolParser('q', target='m:A')\n"
        "@hookimpl\ndef modelhost_reasoning_parsers():\n    yield ReasoningParser('q', target='m:B')\n",
    )
    registry = site.boot()
    assert registry.find("tool parser", "q").record.target == "m:A"
    assert registry.find("reasoning parser", "q").record.target == "m:B"
    assert registry.plugins[1].ids == {"tool parser": ("q",), "reasoning parser": ("q",)}


def test_no_plugins_keeps_modelhost_only(site: Any) -> None:
    site.backend("fast")
    registry = site.boot(no_plugins=True)
    assert set(registry.of("backend")) == {"reference"}
    assert (registry.plugins[1].state, registry.plugins[1].import_ms) == ("disabled", 0.0)
    assert registry.plugins[1].error == "modelhost-fast 1.0 is disabled: plugins are switched off by --no-plugins"


@pytest.mark.parametrize("name", ["fast", "modelhost-fast", "Modelhost_Fast", "modelhost-fast:fast"])
def test_enable_and_disable_by_any_name(site: Any, name: str) -> None:
    site.backend("fast")
    site.backend("other")
    assert set(site.boot(disable=(name,)).of("backend")) == {"reference", "other"}
    assert set(site.boot(enable=(name,)).of("backend")) == {"reference", "fast"}
    assert site.info("fast", disable=(name,)).error == (
        f"modelhost-fast 1.0 is disabled: {name!r} is in plugins.disable"
    )
    assert site.info("other", enable=(name,)).error == "modelhost-other 1.0 is disabled: it is not in plugins.enable"


def test_a_disabled_plugin_is_not_imported(site: Any) -> None:
    site.plugin("bad", "raise RuntimeError('imported')\n")
    assert site.info("bad", disable=("bad",)).state == "disabled"


def test_an_empty_allow_list_leaves_modelhost_itself(site: Any) -> None:
    site.backend("fast")
    assert set(site.boot(enable=()).of("backend")) == {"reference"}


def test_names_that_match_nothing_are_warned_about(site: Any) -> None:
    site.backend("fast")
    assert site.boot(disable=("fsat",)).warnings == (
        "plugins.disable: no plugin 'fsat' is installed; did you mean 'fast'?",
    )
