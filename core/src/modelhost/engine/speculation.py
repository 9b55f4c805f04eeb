"""Speculative decoding: drafts that a speculator proposes are run together and verified one by one.

A draft token that was not drawn at random is accepted when it is the token that the model samples at its place. That is
rejection sampling with a one-point proposal, and it consumes random numbers exactly as generation without speculation
does: the tokens are the same, greedy or sampled. A token drawn from a distribution q is accepted with probability
``min(1, p/q)`` and else replaced by a draw from ``max(p - q, 0)``, so that the distribution is the model's (Leviathan
et al., Fast Inference from Transformers via Speculative Decoding, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelhost.api import PluginError
from modelhost.api.speculator import Draft, SpeculatedSequence, SpeculatorMethod

from .request import Request
from .sampler import Sampled, Sampler

Float = npt.NDArray[np.float32]


@dataclass(slots=True)
class SpeculationStatistics:
    """Counts since the start.

    Attributes:
        drafts: proposals that were run.
        proposed: tokens in them.
        accepted: of these, tokens that became output.
    """

    drafts: int = 0
    proposed: int = 0
    accepted: int = 0


class Speculation:
    """Asks a speculator for drafts and verifies them.

    Args:
        method: the speculator; ``None`` proposes nothing.
        count: most tokens of a draft.
        vocab_size: a draft ends before a token outside the vocabulary.
        max_model_len: a draft leaves room for one more token.
    """

    def __init__(self, method: SpeculatorMethod | None, count: int, *, vocab_size: int, max_model_len: int) -> None:
        self.statistics = SpeculationStatistics()
        self._method = method
        self._count = count
        self._vocab_size = vocab_size
        self._max_model_len = max_model_len

    def propose(self, requests: Sequence[Request]) -> None:
        """Give every request that only lacks its next token a draft."""
        if self._method is None:
            return
        ready = [request for request in requests if request.length - request.computed == 1]
        sequences = [SpeculatedSequence(r.id, r.tokens(0, r.length), self._room(r)) for r in ready]
        drafts = self._method.propose(sequences) if sequences else []
        if len(drafts) != len(sequences):
            raise PluginError(
                f"speculator {type(self._method).__name__} returned {len(drafts)} drafts for {len(sequences)} sequences"
            )
        for request, sequence, draft in zip(ready, sequences, drafts, strict=True):
            request.draft = self._usable(draft, sequence.count)

    def _room(self, request: Request) -> int:
        limit = request.params.max_tokens
        left = self._count if limit is None else limit - len(request.output_token_ids) - 1
        return max(0, min(self._count, left, self._max_model_len - request.length - 1))

    def _usable(self, draft: Draft, count: int) -> Draft | None:
        tokens = list(draft.token_ids)[:count]
        end = next((i for i, token in enumerate(tokens) if not 0 <= token < self._vocab_size), len(tokens))
        return Draft(tokens[:end], draft.probabilities) if end else None

    def verify(self, request: Request, rows: Float, sampler: Sampler) -> list[Sampled]:
        """The tokens that follow: the accepted ones of the draft and one more.

        Args:
            rows: logits ``[1 + n, vocab_size]``: after the last token of the sequence, then after each of the first n
                draft tokens.
        """
        draft = request.draft or Draft()
        drafted = min(len(draft.token_ids), len(rows) - 1)
        result: list[Sampled] = []
        for place, row in enumerate(rows):
            expected = draft.token_ids[place] if place < drafted else None
            sampled = self._next(request, row, draft, place, expected, sampler)
            result.append(sampled)
            if sampled.token_id != expected:
                break
        self.statistics.drafts += bool(drafted)
        self.statistics.proposed += drafted
        self.statistics.accepted += len(result) - 1
        return result

    def _next(
        self, request: Request, row: Float, draft: Draft, place: int, expected: int | None, sampler: Sampler
    ) -> Sampled:
        state = request.sampling
        if expected is None or draft.probabilities is None or request.params.is_greedy:
            return sampler.sample(row, state)
        ids, weights = sampler.distribution(row, state)
        p = np.zeros(self._vocab_size)
        p[ids] = weights
        token = _accept_or_replace(p, draft.probabilities[place].astype(np.float64), expected, state.generator)
        return sampler.record(row, state, token)

    def finish(self, request: Request) -> None:
        """The sequence is over."""
        request.draft = None
        if self._method is not None:
            self._method.finish(request.id)


def _accept_or_replace(
    p: npt.NDArray[np.float64], q: npt.NDArray[np.float64], drawn: int, generator: np.random.Generator
) -> int:
    """Rejection sampling: ``drawn`` came from ``q``; the result is distributed as ``p``."""
    if generator.random() * q[drawn] < p[drawn]:
        return drawn
    rest = np.maximum(p - q, 0.0).cumsum()
    return int(np.searchsorted(rest, generator.random() * rest[-1], side="right"))
