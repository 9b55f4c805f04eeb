"""The merges of a SentencePiece vocabulary, against their definition."""

from __future__ import annotations

import random

import pytest

from modelhost.text.sentencepiece_merges import merges_from_scores


def _by_definition(tokens: list[str], scores: list[float], mergeable: list[int]) -> list[tuple[str, str]]:
    pieces = {tokens[index] for index in mergeable}
    ranked = [tokens[index] for index in sorted(mergeable, key=lambda index: -scores[index])]
    cuts = [(piece[:cut], piece[cut:]) for piece in ranked for cut in range(len(piece) - 1, 0, -1)]
    return [(left, right) for left, right in cuts if left in pieces and right in pieces]


@pytest.mark.parametrize("alphabet", ["ab", "a\0", "\u2581\U0001f600x", "abcdefghij"])
@pytest.mark.parametrize("count", [1, 80, 20_000])
def test_every_cut_into_two_pieces_is_a_merge(alphabet: str, count: int) -> None:
    """Scores with ties, pieces that do not take part, and more pieces than are looked at together."""
    chosen = random.Random(count)
    drawn = ("".join(chosen.choices(alphabet, k=chosen.randrange(1, 9))) for _ in range(count))
    tokens = list(dict.fromkeys(drawn))
    scores = [float(chosen.randrange(-50, 0)) for _ in tokens]
    mergeable = [index for index in range(len(tokens)) if chosen.random() < 0.9]
    assert merges_from_scores(tokens, scores, mergeable) == _by_definition(tokens, scores, mergeable)


def test_no_pieces() -> None:
    assert merges_from_scores(["a", "b"], [0.0, 0.0], []) == []
