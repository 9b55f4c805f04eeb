"""``modelhost explain --html``: one page that needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from modelhost.cli.report.layout import place

from .conftest import Cli, write_checkpoint

VOID = {"meta"}


class Page(HTMLParser):
    """The text of a page by element, and a check that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def page_of(cli: Cli, model: str, file: Path, *options: str) -> Page:
    result = cli("explain", model, "--backend", "reference", "--html", str(file), *options)
    assert (result.code, result.err) == (0, f"The page is in {file}\n")
    return Page(file.read_text())


def test_nothing_is_fetched(cli: Cli, tiny: str, tmp_path: Path) -> None:
    page = page_of(cli, tiny, tmp_path / "page.html")
    assert not {name for name, _ in page.attributes} & {"src", "href", "srcset", "data", "onclick"}
    assert not re.search(r"https?:|url\(|@import|<script|<link", (tmp_path / "page.html").read_text())


def test_it_has_what_the_command_prints(cli: Cli, tiny: str, tmp_path: Path) -> None:
    page = page_of(cli, tiny, tmp_path / "page.html")
    assert page.texts["h2"] == [
        "Memory", "Weights", "KV cache", "Workspace over one step", "Graph", "Ops", "Plugins",
    ]  # fmt: skip
    assert {"f32", "full", "embed", "linear", "LlamaForCausalLM"} <= set(page.texts["code"])
    assert any("modelhost-llama" in text for text in page.texts["td"])


def test_every_op_and_tensor_is_drawn(cli: Cli, tiny: str, tmp_path: Path) -> None:
    page = page_of(cli, tiny, tmp_path / "page.html")
    graph = cli("explain", tiny, "--backend", "reference", "--graph").out
    ops = re.findall(r"^  \S.* = (\w+)\(", graph, re.MULTILINE)
    assert sorted(text for text in page.texts["text"] if text in ops) == sorted(ops)
    assert any(text.endswith("q_proj+k_proj+v_proj 32×264 f32") for text in page.texts["text"])


def test_layers_that_are_alike_are_drawn_once(cli: Cli, tmp_path: Path) -> None:
    from modelhost_llama.llama import Llama

    from modelhost.testing.checkpoints import write_random_checkpoint

    sizes = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    model = write_random_checkpoint(tmp_path / "m", "LlamaForCausalLM", Llama, {**sizes, "num_hidden_layers": 6})
    page = page_of(cli, str(model), tmp_path / "page.html")
    titles = [text for text in page.texts["b"] if re.match(r"Layers? |Before|After", text)]
    assert titles == ["Before the layers", "Layer 0", "Layers 1 to 5", "After the layers"]
    assert any(text.startswith("5 times ") for text in page.texts["span"])


def test_without_memory_there_is_the_reason(cli: Cli, tiny: str, tmp_path: Path) -> None:
    page = page_of(cli, tiny, tmp_path / "page.html", "--memory-bytes", "100K")
    assert page.texts["pre"][0].startswith("the model needs ")
    assert "Workspace over one step" not in page.texts["h2"]


def test_names_are_escaped(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "<b>&")
    page = page_of(cli, str(model), tmp_path / "page.html")
    assert "".join(page.texts["h1"]) == "<b>&"


def test_a_file_that_cannot_be_written(cli: Cli, tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "missing" / "page.html"
    result = cli("explain", tiny, "--backend", "reference", "--html", str(file))
    assert result.code == 1
    assert result.err == f"error: {file} cannot be written: No such file or directory\n"


@pytest.mark.parametrize("seed", range(20))
def test_boxes_do_not_overlap_and_edges_lead_down(seed: int) -> None:
    import random

    rng = random.Random(seed)
    widths = [rng.uniform(20, 90) for _ in range(rng.randint(2, 25))]
    edges = sorted({tuple(sorted(rng.sample(range(len(widths)), 2))) for _ in range(2 * len(widths))})
    layout = place(widths, edges, gap=8, thread=4)
    for start, end in edges:
        route = layout.routes[start, end]
        assert [row for row, _ in route] == list(range(layout.rows[start], layout.rows[end] + 1))
        assert (route[0][1], route[-1][1]) == (layout.centres[start], layout.centres[end])
    for row in set(layout.rows.values()):
        boxes = sorted((layout.centres[box], widths[box]) for box in layout.rows if layout.rows[box] == row)
        assert boxes[0][0] - boxes[0][1] / 2 >= -1e-6 and boxes[-1][0] + boxes[-1][1] / 2 <= layout.width + 1e-6
        for (left, left_width), (right, right_width) in pairwise(boxes):
            assert right - left >= (left_width + right_width) / 2 + 8 - 1e-6
