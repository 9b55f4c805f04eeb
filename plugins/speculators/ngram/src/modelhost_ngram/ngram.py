"""Looks up what followed the last tokens when they occurred before (prompt lookup decoding, Saxena, 2023).

As in vLLM's ``v1/spec_decode/ngram_proposer.py`` the longest n-gram wins, and of its occurrences the earliest.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelhost.api.speculator import Draft, SpeculatedSequence, SpeculationContext

from .settings import NGramSettings


class NGram:
    """Proposes the continuation of an earlier occurrence of the sequence's end."""

    def __init__(self, context: SpeculationContext, settings: NGramSettings | None = None) -> None:
        self._settings = settings or NGramSettings()
        self._indices: dict[str, NGramIndex] = {}

    def propose(self, sequences: Sequence[SpeculatedSequence]) -> list[Draft]:
        return [self._draft(sequence) for sequence in sequences]

    def finish(self, request_id: str) -> None:
        self._indices.pop(request_id, None)

    def _draft(self, sequence: SpeculatedSequence) -> Draft:
        limits = self._settings
        index = self._indices.setdefault(
            sequence.request_id, NGramIndex(limits.prompt_lookup_min, limits.prompt_lookup_max)
        )
        start = index.continuation(sequence.token_ids)
        return Draft() if start is None else Draft(sequence.token_ids[start : start + sequence.count])


class NGramIndex:
    """Where each n-gram of one growing sequence occurred first. Each new token costs one entry for every length.

    Args:
        shortest: least tokens of an n-gram.
        longest: most tokens.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._lengths = range(shortest, longest + 1)
        self._ends: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def continuation(self, tokens: Sequence[int]) -> int | None:
        """Place of the token that followed the longest n-gram that both ends ``tokens`` and occurs before."""
        found = None
        for end in range(self._indexed + 1, len(tokens) + 1):
            found = self._add(tokens, end)
        self._indexed = len(tokens)
        return found

    def _add(self, tokens: Sequence[int], end: int) -> int | None:
        found = None
        for length in self._lengths:
            if length > end:
                break
            first = self._ends.setdefault(tuple(tokens[end - length : end]), end)
            found = first if first < end else found
        return found
