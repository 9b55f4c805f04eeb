"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_nemotron_parsers.formats import nemotron_v3

from modelhost.api.parsing import Parsed, ParserContext, parse
from modelhost.testing.parser import Sample, check_parser

CONTEXT = ParserContext(template_options={"force_nonempty_content": True})


def test_nemotron_v3() -> None:
    texts = ("<think>a < b</think>\n\nDone.", "no end")
    check_parser(nemotron_v3, [Sample(text, context) for text in texts for context in (ParserContext(), CONTEXT)])


def test_reasoning_is_the_answer_when_there_is_no_other() -> None:
    assert parse(nemotron_v3(CONTEXT), "<think>a") == Parsed("a", "a", ())
    assert parse(nemotron_v3(CONTEXT), "<think>a</think>b") == Parsed("a", "b", ())
