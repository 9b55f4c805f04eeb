from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import API, version

BACKEND = '@hookimpl\ndef modelhost_backends():\n    yield Backend("b", target="m:A")\n'
REMOVE = "Remove it with: pip uninstall modelhost-bad"


def broken(reason: str, position: str) -> str:
    return f"modelhost-bad 1.0 (entry point 'bad') is broken: {reason} ({position}). {REMOVE}"


def test_a_good_plugin(site: Any) -> None:
    file = site.backend("fast", 'devices=("cpu", "cuda")')
    info = site.info("fast")
    assert (info.state, info.error, info.api, info.location) == ("ok", None, (1, 0), str(file))
    assert info.ids == {"backend": ("fast",)}
    assert info.import_ms > 0
    registration = site.boot().find("backend", "fast")
    assert registration.record.devices == ("cpu", "cuda")
    assert (registration.owner, registration.entry_point, registration.api) == ("modelhost-fast 1.0", "fast", (1, 0))
    assert (registration.module, registration.file) == ("modelhost_fast.plugin", str(file))


def test_the_time_of_import_and_hooks_is_measured(site: Any) -> None:
    site.plugin(
        "slow",
        "import time\ntime.sleep(0.02)\n@hookimpl\ndef modelhost_backends():\n    time.sleep(0.02)\n    return []\n",
    )
    assert site.info("slow").import_ms >= 40


@pytest.mark.parametrize(
    ("body", "reason", "line"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero", 4),
        ("import no_such_module_here\n", "it needs the module 'no_such_module_here', which is not installed", 4),
        ("import modelhost_bad.gone\n", "its own module 'modelhost_bad.gone' is missing from the installation", 4),
        ("raise SystemExit(3)\n", "SystemExit: 3", 4),
        ("def f(:\n", "SyntaxError: invalid syntax ({file}, line 4)", 4),
        (
            "@hookimpl\ndef modelhost_backends():\n    yield from ()\n    raise ValueError('boom')\n",
            "modelhost_backends() failed: ValueError: boom",
            7,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    yield Backend('b', target='no colon')\n",
            "modelhost_backends() failed: PluginError: backend 'b': target must look like "
            "\"package.module:attribute\", got 'no colon'",
            6,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    yield 'b'\n",
            "modelhost_backends() yielded 'b', expected Backend",
            4,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    pass\n",
            "modelhost_backends() returned NoneType, expected an iterable of Backend",
            4,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    return Backend('b', target='m:A')\n",
            "modelhost_backends() returned Backend, expected an iterable of Backend",
            4,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    return 2 * [Backend('b', target='m:A')]\n",
            "it declares backend 'b' twice",
            4,
        ),
        (
            "@hookimpl\ndef modelhost_backends():\n    yield Backend('b', target='m:A', replaces='b')\n",
            "backend 'b': replaces must look like \"distribution:id\", got 'b'",
            4,
        ),
        (
            "@hookimpl\ndef modelhost_archtectures():\n    return []\n",
            "there is no hook 'modelhost_archtectures'; did you mean 'modelhost_architectures'?",
            4,
        ),
        ("\ndef modelhost_backends():\n    return []\n", "modelhost_backends() lacks the decorator @hookimpl", 5),
        (
            "@hookimpl(wrapper=True)\ndef modelhost_backends():\n    return (yield)\n",
            "modelhost_backends() is a hook wrapper; hooks only declare records",
            4,
        ),
    ],
)
def test_a_broken_plugin_says_what_where_and_how_to_remove_it(site: Any, body: str, reason: str, line: int) -> None:
    file = site.plugin("bad", body)
    site.backend("good")
    registry = site.boot()
    bad = next(plugin for plugin in registry.plugins if plugin.entry_point == "bad")
    assert bad.state == "broken"
    expected = reason.replace("{file}", file.name)
    assert bad.error == broken(expected, f"{file}:{line}")
    assert bad.ids == {}
    assert set(registry.of("backend")) == {"good", "reference"}


def test_the_position_is_in_the_plugin_even_when_its_callee_raises(site: Any) -> None:
    file = site.plugin("bad", "import json\njson.loads('{')\n")
    assert site.info("bad").error.endswith(f"({file}:5). {REMOVE}")


def test_a_missing_declaring_module_points_at_the_distribution(site: Any) -> None:
    info = site.install("modelhost-bad", "1.0", {"bad": "modelhost_bad.plugin"})
    assert site.info("bad").error == broken(
        "its own module 'modelhost_bad' is missing from the installation", str(info)
    )


def test_an_entry_point_must_name_a_module(site: Any) -> None:
    info = site.install("modelhost-bad", "1.0", {"bad": "modelhost_bad:plugin"})
    assert site.info("bad").error == broken("its entry point must name a module, got 'modelhost_bad:plugin'", str(info))


def test_an_argument_that_the_hook_does_not_have(site: Any) -> None:
    file = site.plugin("bad", "@hookimpl\ndef modelhost_backends(registry):\n    return []\n")
    info = site.info("bad")
    assert info.state == "broken"
    assert "Argument(s) {'registry'} are declared in the hookimpl but can not be found in the hookspec" in info.error
    assert info.error.endswith(f"({file}). {REMOVE}")


def test_a_hook_that_newer_hosts_have_may_be_optional(site: Any) -> None:
    site.plugin("new", "@hookimpl(optionalhook=True)\ndef modelhost_samplers():\n    return []\n" + BACKEND)
    assert site.info("new").ids == {"backend": ("b",)}


def test_a_hook_may_go_by_another_name(site: Any) -> None:
    body = "@hookimpl(specname='modelhost_backends')\ndef fast():\n    yield Backend('b', target='m:A')\n"
    site.plugin("new", body)
    assert site.info("new").ids == {"backend": ("b",)}


def test_a_plugin_that_breaks_the_report_about_it_is_broken_too(site: Any) -> None:
    body = "class Odd:\n    def __repr__(self): raise ValueError('no text')\n"
    file = site.plugin("bad", f"{body}@hookimpl\ndef modelhost_backends():\n    yield Odd()\n")
    assert site.info("bad").error == broken("ValueError: no text", f"{file}:5")


def test_one_module_for_two_entry_points(site: Any) -> None:
    file = site.plugin("good", BACKEND)
    site.install("modelhost-bad", "1.0", {"bad": "modelhost_good.plugin"})
    registry = site.boot()
    states = {plugin.distribution: plugin.state for plugin in registry.plugins}
    assert states == {"modelhost": "ok", "modelhost-bad": "ok", "modelhost-good": "broken"}
    assert registry.plugins[2].error == (
        "modelhost-good 1.0 (entry point 'good') is broken: its module 'modelhost_good.plugin' is already declared by "
        f"modelhost-bad:bad ({file}). Remove it with: pip uninstall modelhost-good"
    )


def test_core_is_reinstalled_rather_than_removed(site: Any) -> None:
    site.install("modelhost", "0.1.0.post1", {"more": "no_such_builtin"})
    assert site.info("more").error.endswith("Reinstall it with: pip install --force-reinstall modelhost")


def test_missing_api_number(site: Any) -> None:
    file = site.plugin("bad", BACKEND, header="from modelhost.api import Backend, hookimpl\n")
    assert site.info("bad").error == broken(
        f"it states no API number; add the line API = {API} to its declaring module", str(file)
    )


@pytest.mark.parametrize("value", ["'1.0'", "1", "(1,)", "(1, '0')", "(True, 0)", "[1, 0]"])
def test_malformed_api_number(site: Any, value: str) -> None:
    file = site.plugin("bad", BACKEND + f"API = {value}\n")
    assert site.info("bad").error == broken(f"API must be two integers such as {API}, got {eval(value)!r}", str(file))


@pytest.mark.parametrize(
    ("built_for", "remedy"),
    [
        ((API[0], API[1] + 1), "Upgrade modelhost: pip install -U modelhost"),
        ((API[0] + 1, 0), "Upgrade modelhost: pip install -U modelhost"),
        ((API[0] - 1, 7), "Upgrade the plugin: pip install -U modelhost-odd"),
    ],
)
def test_incompatible_api_number(site: Any, built_for: tuple[int, int], remedy: str) -> None:
    marker = site.directory / "called"
    hook = f"@hookimpl\ndef modelhost_backends():\n    open({str(marker)!r}, 'w').close()\n    return []\n"
    site.plugin("odd", f"API = {built_for}\n{hook}")
    info = site.info("odd")
    assert (info.state, info.api) == ("incompatible", built_for)
    assert info.error == (
        f"modelhost-odd 1.0 (entry point 'odd') was built for API {built_for[0]}.{built_for[1]}, "
        f"this modelhost has API {API[0]}.{API[1]}. {remedy}"
    )
    assert not marker.exists()


def test_an_older_minor_is_compatible() -> None:
    assert version.compatible((1, 2), (1, 3))
    assert not version.compatible((1, 4), (1, 3))


@pytest.mark.parametrize("assignment", ["API =", "API: tuple[int, int] ="])
def test_a_newer_plugin_that_imports_a_newer_name_is_incompatible_not_broken(site: Any, assignment: str) -> None:
    header = f"from modelhost.api import hookimpl, RecordOfTheFuture\n{assignment} ({API[0]}, {API[1] + 1})\n"
    site.plugin("odd", header=header)
    info = site.info("odd")
    assert (info.state, info.api) == ("incompatible", (API[0], API[1] + 1))
    assert info.error.endswith("Upgrade modelhost: pip install -U modelhost")


def test_every_plugin_broken_still_boots(site: Any) -> None:
    for name in ("a", "b", "c"):
        site.plugin(name, "1 / 0\n")
    registry = site.boot()
    assert [plugin.state for plugin in registry.plugins] == ["ok", "broken", "broken", "broken"]


def test_editable_installs_are_marked(site: Any) -> None:
    site.install("modelhost-dev", "0.1", {"dev": "dev_plugin"}, {"dev_plugin": "API = (1, 0)\n"}, editable=True)
    assert site.info("dev").editable
    assert not site.info("core").editable
