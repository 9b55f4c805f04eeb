"""Begin and end tokens around encoded text."""

from __future__ import annotations

from tokenizers import processors


def begin_and_end(first: list[tuple[str, int]], last: list[tuple[str, int]]) -> processors.PostProcessor:
    """A post-processor that puts the tokens `first` before and `last` after the text, each a (text, id) pair."""
    named = {f"token{index}": (text, index) for text, index in (*first, *last)}
    single = [*(f"token{index}" for _, index in first), "$A", *(f"token{index}" for _, index in last)]
    return processors.TemplateProcessing(
        single=single,
        special_tokens=[{"id": name, "ids": [index], "tokens": [text]} for name, (text, index) in named.items()],
    )
