"""The format on sample outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from modelhost_lines_parser.lines import LinesParser

from modelhost.api.parsing import Call, Parsed, ParserContext
from modelhost.testing.hygiene import hygiene_checks
from modelhost.testing.parser import Sample, parser_checks

PROPERTIES = {"city": {"type": "string"}, "days": {"type": "integer"}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"properties": PROPERTIES}}}]
WEATHER = "[call weather]\ncity = Oslo\ndays = 3\n[end]\n"
CALL = Call("weather", '{"city": "Oslo", "days": 3}')
SAMPLES = {
    "a call": Sample(f"Let me look.\n{WEATHER}", ParserContext(TOOLS), parsed=Parsed("", "Let me look.\n", (CALL,))),
    "two calls": Sample(WEATHER + WEATHER, ParserContext(TOOLS), parsed=Parsed("", "", (CALL, CALL))),
    "lines of any kind": Sample(
        "[call note]\ntext = a\nand b\nc = [1]\n[end]",
        parsed=Parsed("", "", (Call("note", '{"text": "a\\nand b", "c": "[1]"}'),)),
    ),
    "not a call": Sample("See [call me] or [call ", parsed=Parsed("", "See [call me] or [call ", ())),
}


@pytest.mark.parametrize("check", parser_checks(LinesParser, SAMPLES))
def test_conformance(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", hygiene_checks(Path(__file__).parents[1]))
def test_hygiene(check: Callable[[], None]) -> None:
    check()
