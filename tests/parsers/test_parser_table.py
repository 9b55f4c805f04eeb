"""What is written about the parsers is what they declare."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from parser_registry import in_the_tree

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "core" / "src" / "modelhost" / "plugins" / "known_plugins.toml"


def test_the_table_is_current() -> None:
    script = ROOT / "scripts" / "parser_table.py"
    result = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_table_has_every_name() -> None:
    tools, _, reasoning = (ROOT / "docs" / "parsers.md").read_text(encoding="utf-8").partition("## Reasoning")
    text = {"tool parser": tools, "reasoning parser": reasoning}
    assert [one.id for one in in_the_tree() if f"`{one.id}`" not in text[one.kind]] == []


def test_the_index_of_known_plugins_has_the_parsers_of_this_tree_and_no_others() -> None:
    index = tomllib.loads(INDEX.read_text(encoding="utf-8"))
    keys = {"tool parser": "tool_parsers", "reasoning parser": "reasoning_parsers"}
    known = {
        (key, id, package) for package, table in index.items() for key in keys.values() for id in table.get(key, ())
    }
    declared = {(keys[one.kind], one.id, one.distribution) for one in in_the_tree()}
    assert known ^ declared == set()
