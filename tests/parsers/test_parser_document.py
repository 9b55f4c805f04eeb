"""The code in docs/write-a-parser.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from modelhost.api import ReasoningParser, ToolParser

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "write-a-parser.md").read_text(encoding="utf-8")


def test_the_code_runs_from_top_to_bottom() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, "write-a-parser.md", "exec"), names)
    assert [type(record) for record in names["modelhost_tool_parsers"]()] == [ToolParser]
    assert [type(record) for record in names["modelhost_reasoning_parsers"]()] == [ReasoningParser]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (DOCS / target).exists(), target


def test_every_engine_in_the_table_exists() -> None:
    import modelhost.api.parsing as parsing

    table = TEXT.partition("|---|---|\n")[2].partition("\n\n")[0]
    engines = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert len(engines) == 8
    assert all(hasattr(parsing, name) for name in engines)
