"""Draws what follows a token from what followed it earlier in the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from modelhost.api.speculator import Draft, SpeculatedSequence, SpeculationContext


class Bigram:
    def __init__(self, context: SpeculationContext, settings: object | None = None) -> None:
        self._vocab_size = context.vocab_size
        self._generator = np.random.default_rng(0)

    def propose(self, sequences: Sequence[SpeculatedSequence]) -> list[Draft]:
        return [self._draft(list(sequence.token_ids), sequence.count) for sequence in sequences]

    def finish(self, request_id: str) -> None:
        """Nothing is kept of a sequence."""

    def _draft(self, tokens: list[int], count: int) -> Draft:
        followers: dict[int, list[int]] = {}
        for before, after in pairwise(tokens):
            followers.setdefault(before, []).append(after)
        drawn: list[int] = []
        while len(drawn) < count and (seen := followers.get((drawn or tokens)[-1])):
            drawn.append(int(self._generator.choice(seen)))
        probabilities = np.zeros((len(drawn), self._vocab_size), np.float32)
        for row, before in zip(probabilities, [tokens[-1], *drawn], strict=False):
            np.add.at(row, followers[before], 1 / len(followers[before]))
        return Draft(drawn, probabilities)
