"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_holo_parsers.formats import holo2

from modelhost.testing.parser import Sample, check_parser


def test_holo2() -> None:
    check_parser(holo2, [Sample("<think>a < b</think>\n\nDone."), Sample("no end")])
