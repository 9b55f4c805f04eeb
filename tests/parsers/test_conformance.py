"""The conformance kit on every declared parser, with recorded outputs as its samples."""

from __future__ import annotations

import pytest
from golden_cases import Case, cases

from modelhost.testing.parser import CHECKS, Sample, check_nothing_lost

SAMPLES = 6
IGNORED = {
    "deepseek_v3": (r">function<｜tool▁sep｜>",),
    "inkling": (r"<\|message_model\|><\|content_invoke_tool_json\|>",),
    "k2_horizon": (r"<ifm\|arg_type>.*?</ifm\|arg_type>",),
    "kimi_k3": (r'\s(index|type)="[^"]*"',),
    "openai": (r"<\|(start|channel)\|>.*?<\|message\|>",),
    "openai_gptoss": (r"<\|(start|channel)\|>.*?<\|message\|>",),
    "step3": (r">function<｜tool_sep｜>",),
}
"""Markup by parser whose text is not part of the result."""
DROPPED_BY_TEMPLATE = {"hf.array", "hf.xml"}
"""Cases with a response template that leaves out what is in none of its regions or elements."""


def _usable(case: Case) -> bool:
    hidden = case.data.get("request", {}).get("include_reasoning") is False
    return case.kind != "combined" and not hidden and "truncated" not in case.name and len(case.text) < 500


def _samples() -> dict[str, list[Case]]:
    chosen: dict[str, list[Case]] = {}
    for case in filter(_usable, cases()):
        chosen.setdefault(f"{case.kind}-{case.file}", []).append(case)
    return {name: sorted(found, key=lambda case: len(case.text))[-SAMPLES:] for name, found in chosen.items()}


@pytest.mark.parametrize(("name", "samples"), _samples().items(), ids=list(_samples()))
def test_parser_conforms(name: str, samples: list[Case]) -> None:
    for case in samples:
        ignored = IGNORED.get(name.partition("-")[2], ())
        markers = tuple(case.head.get("single_token_markers", ()))
        sample = Sample(case.text, markers=markers, ignored=ignored)
        for check in CHECKS.values():
            if check is not check_nothing_lost or case.file not in DROPPED_BY_TEMPLATE:
                check(lambda context, case=case: case.parser(), sample)
