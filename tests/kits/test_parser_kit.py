"""The parser kit fails parsers that break the rules, each by the check that is named for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelhost.api.parsing import CallArguments, CallEnd, CallStart, Content, Event, JsonCalls, Parsed, ParserContext
from modelhost.testing.parser import CHECKS, Sample, parser_checks

CALLS = JsonCalls(open=("<call>",), close=("</call>",))
CALL = '<call>{"name": "f", "arguments": {"a": 1}}</call>'


class PlainText:
    """Reports all text as content; the base of the broken parsers here."""

    def __init__(self, context: ParserContext) -> None:
        self.text = ""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [Content(text)] if text else []

    def finish(self) -> list[Event]:
        return []


class PerPiece(PlainText):
    """Decides within one piece of text."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [Content(text.replace("<end>", ""))]


class Forgets(PlainText):
    """Loses what is between brackets."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        self.text += text
        return []

    def finish(self) -> list[Event]:
        before, _, rest = self.text.partition("(")
        return [Content(before + rest.partition(")")[2])]


class ByIds(PlainText):
    """Leaves out text that comes with token ids."""

    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        return [] if token_ids else super().feed(text)


class Open(PlainText):
    """Never ends a call."""

    def finish(self) -> list[Event]:
        return [CallStart(0, "f"), CallArguments(0, "{}")]


def failing(factory: type[PlainText], sample: Sample) -> set[str]:
    names = set()
    for parameter in parser_checks(factory, {"s": sample}):
        try:
            parameter.values[0]()
        except AssertionError:
            names.add(str(parameter.id))
    return names


def test_a_good_parser_passes() -> None:
    samples = {"call": Sample(f"a {CALL}"), "text": Sample("a < b", parsed=Parsed("", "a < b", ()))}
    parameters = parser_checks(CALLS, samples)
    assert [p.id for p in parameters] == [f"{name}[{label}]" for label in samples for name in CHECKS]
    for parameter in parameters:
        parameter.values[0]()


@pytest.mark.parametrize(
    ("factory", "sample", "check"),
    [
        (PlainText, Sample("a", parsed=Parsed("", "b", ())), "result[s]"),
        (PerPiece, Sample("a <end> b"), "splits[s]"),
        (PerPiece, Sample("a <end> b"), "random_pieces[s]"),
        (ByIds, Sample("a b"), "random_tokens[s]"),
        (Open, Sample("a"), "truncation[s]"),
        (Forgets, Sample("a (b) c"), "nothing_lost[s]"),
    ],
)
def test_a_broken_parser_fails(factory: type[PlainText], sample: Sample, check: str) -> None:
    assert check in failing(factory, sample)


def test_plain_text_passes() -> None:
    assert failing(PlainText, Sample("a (b) c")) == set()


def test_call_order_is_checked() -> None:
    class Twice(PlainText):
        def finish(self) -> list[Event]:
            return [CallStart(0, "f"), CallEnd(0), CallStart(0, "f"), CallEnd(0)]

    assert "splits[s]" in failing(Twice, Sample("ab"))


def test_expected_failures_become_strict_xfails() -> None:
    parameters = parser_checks(CALLS, {"s": Sample("a")}, expected_failures={"splits[s]": "not yet"})
    [marked] = [p for p in parameters if p.marks]
    assert (marked.id, marked.marks[0].kwargs) == ("splits[s]", {"reason": "not yet", "strict": True})
    with pytest.raises(ValueError, match=r"^expected_failures names checks that do not exist: splits\[t\]$"):
        parser_checks(CALLS, {"s": Sample("a")}, expected_failures={"splits[t]": "misspelt"})
