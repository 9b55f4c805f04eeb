"""The conformance kit on the formats of this package."""

from __future__ import annotations

from modelhost_seed_parsers.formats import seed_oss, seed_oss_reasoning

from modelhost.testing.parser import Sample, check_parser


def test_seed_oss() -> None:
    inner = "<function=f>\n<parameter=a>\nx < y\n\n</parameter>\n</function>"
    call = f"<seed:tool_call>\n{inner}\n</seed:tool_call>"
    check_parser(seed_oss, [Sample("Let me see.\n" + call + "\n" + call + "\nDone.")])


def test_seed_oss_reasoning() -> None:
    check_parser(seed_oss_reasoning, [Sample("<seed:think>a < b</seed:think>\n\nDone."), Sample("no end")])
