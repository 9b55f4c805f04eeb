"""Pieces of HTML and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

FAMILIES = {
    "product": ("linear", "head_linear", "experts", "embed"),
    "attention": ("attention", "latent_attention", "compressed_attention", "gated_delta_rule", "causal_convolution"),
    "cache": ("write_cache",),
    "norm": ("rms_norm", "add_rms_norm", "layer_norm"),
    "shape": ("reshape", "split", "concatenate", "take_rows", "cast"),
}
"""Ops by what they are drawn as; all others are ``other``."""


def family(op: str) -> str:
    """The style class of an op."""
    return next((name for name, ops in FAMILIES.items() if op in ops), "other")


def element(name: str, content: str = "", **attributes: object) -> str:
    """An element with escaped attributes; ``_`` in their names stands for ``-``, a last one is left out."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(str(v))}"' for key, v in attributes.items())
    return f"<{name}{pairs}>{content}</{name}>"


def text(value: object) -> str:
    """Escaped text."""
    return escape(str(value))


def titled(content: str, title: str) -> str:
    """``content`` of an SVG element with a tooltip."""
    return element("title", text(title)) + content


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells. Headers that begin with ``>`` are of columns aligned to the right."""
    classes = ["number" if name.startswith(">") else "" for name in header]
    head = "".join(element("th", text(n.lstrip(">")), class_=c) for n, c in zip(header, classes, strict=True))
    body = "".join(
        element("tr", "".join(element("td", cell, class_=c) for cell, c in zip(row, classes, strict=True)))
        for row in rows
    )
    return element(
        "div", element("table", element("thead", element("tr", head)) + element("tbody", body)), class_="wide"
    )


def bar(parts: Iterable[tuple[str, int, str]], whole: int) -> str:
    """A stacked bar. Each part is ``(style class, size, tooltip)``; what is left of ``whole`` stays empty."""
    pieces = [
        element("i", class_=name, style=f"width:{100 * size / max(whole, 1):.3f}%", title=tip)
        for name, size, tip in parts
    ]
    return element("div", "".join(pieces), class_="bar")
