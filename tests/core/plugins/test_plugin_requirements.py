from __future__ import annotations

from pathlib import Path

import pytest

from modelhost.plugins.requirements import host_requirement_problem

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "text",
    [
        "modelhost>=0.1,<0.2",
        "modelhost<0.2,>=0.1",
        "modelhost (>=0.1,<0.2)",
        "modelhost[serve]>=0.1,<1",
        "modelhost~=0.1",
        "Modelhost>=0.1,<0.2; python_version >= '3.11'",
        "modelhost==0.1.*",
    ],
)
def test_ranges(text: str) -> None:
    assert host_requirement_problem(["numpy", "modelhost-llama>=0.1", text]) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modelhost==0.1.0", "one version of modelhost, so neither can be upgraded alone"),
        ("modelhost===0.1.0", "one version of modelhost, so neither can be upgraded alone"),
        ("modelhost", "a range without a start"),
        ("modelhost>=0.1", "a range without an end"),
        ("modelhost<0.2", "a range without a start"),
        ("modelhost!=0.1", "a range without a start"),
        ("modelhost @ file:///src", "one copy of modelhost, which replaces the installed one"),
    ],
)
def test_what_is_no_range(text: str, problem: str) -> None:
    assert host_requirement_problem([text]) == f"requires {text!r}: {problem}"


def test_none_at_all() -> None:
    text = "does not require modelhost, so pip cannot tell which versions it goes with"
    assert host_requirement_problem([]) == text
    assert host_requirement_problem(["modelhost-llama>=0.1", "modelhost>=0.1,<0.2; extra == 'test'"]) == text
