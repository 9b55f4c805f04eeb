"""BPE merges recovered from the scores of a SentencePiece vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def merges_from_scores(
    tokens: Sequence[str], scores: Sequence[float], mergeable: Collection[int]
) -> list[tuple[str, str]]:
    """The merge list under which rank-ordered BPE segments text as score-ordered SentencePiece BPE does.

    SentencePiece joins the adjacent pair whose concatenation is the piece of the highest score, so each way to cut a
    piece into two pieces is one merge and a better score means an earlier merge. Of the cuts of one piece the one with
    the longest left part comes first.

    `mergeable` holds the ids of the pieces that merging may use or produce: normal ones, and not control, byte,
    unknown or user-defined ones, which SentencePiece keeps out of the search (`src/bpe_model.cc`).
    """
    pieces = {tokens[index] for index in mergeable}
    merges: list[tuple[str, str]] = []
    add = merges.append
    for index in sorted(mergeable, key=lambda index: -scores[index]):
        piece = tokens[index]
        for cut in range(len(piece) - 1, 0, -1):
            left = piece[:cut]
            if left in pieces and (right := piece[cut:]) in pieces:
                add((left, right))
    return merges
