"""docs/plugins.md has every hook, record field, setting, variable and command, with its signature in the code."""

from __future__ import annotations

import inspect
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from modelhost.api import HOOKS, Record, hookspecs
from modelhost.cli.commands import SUBCOMMANDS
from modelhost.plugins.info import State
from modelhost.plugins.settings import CACHE_VARIABLE, KEYS, LIST_VARIABLES, TIMEOUT_VARIABLE, load_settings

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")


def parameter(one: inspect.Parameter) -> str:
    default = "" if one.default is one.empty else f" = {one.default!r}".replace("'", '"')
    return f"{one.name}: {one.annotation}{default}"


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_and_its_record(hook: str) -> None:
    record = HOOKS[hook]
    returns = inspect.signature(getattr(hookspecs, hook)).return_annotation.replace("records.", "")
    heading = f"### `{hook}() -> {returns}`\n"
    assert returns == f"Iterable[{record.__name__}]"
    assert heading in TEXT
    section = TEXT.partition(heading)[2].partition("\n#")[0]
    parameters = inspect.signature(record).parameters.values()
    own = [parameter(one) for one in parameters if one.kind is not one.KEYWORD_ONLY]
    block = "".join(f"    {one},\n" for one in own)
    assert f"```python\n{record.__name__}(\n{block})\n```" in section


def test_what_every_record_takes() -> None:
    parameters = inspect.signature(Record).parameters.values()
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY:
            assert f"- `{parameter(one)}`" in TEXT


@pytest.mark.parametrize("key", KEYS)
def test_every_setting(key: str) -> None:
    assert f"| `plugins.{key}` |" in TEXT


@pytest.mark.parametrize("variable", [*LIST_VARIABLES, TIMEOUT_VARIABLE, CACHE_VARIABLE, "MODELHOST_CACHE"])
def test_every_variable(variable: str) -> None:
    assert re.search(rf"`{variable}(=0)?`", TEXT)


def test_no_setting_that_does_not_exist() -> None:
    assert set(re.findall(r"^\| `plugins\.(\w+)` \|", TEXT, re.MULTILINE)) == set(KEYS)


def test_the_example_of_a_file_can_be_read(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(\[plugins\].+?)```", TEXT, re.DOTALL)
    assert len(examples) == 1
    (tmp_path / "modelhost.toml").write_text(examples[0])
    settings = load_settings(tmp_path, {})
    assert (settings.disable, settings.timeout) == (("modelhost-torch",), 30.0)
    assert settings.plugin == tomllib.loads(examples[0])["plugin"]


@pytest.mark.parametrize("state", State.__args__)
def test_every_state(state: str) -> None:
    assert f"| `{state}` |" in TEXT


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_every_command(command: str) -> None:
    assert f"| `modelhost {command} " in TEXT


@pytest.mark.slow
def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts/plugins_transcript.py"))
    written = TEXT.partition(script["BEGIN"])[2].partition(script["END"])[0]
    assert script["transcript"](tmp_path) == written
