"""What is done to a row of logits before it is sampled: masks, biases and penalties, in vLLM's order.

The order and the formulas are those of vllm/v1/sample/sampler.py: allowed tokens, bad words, minimum length, logit
bias, then repetition (Keskar et al. 2019, CTRL), frequency and presence penalties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from modelhost.api import RequestError

from .sampling_params import SamplingParams

if TYPE_CHECKING:
    from modelhost.text.tokenizer import Tokenizer

__all__ = ["LogitsAdjuster", "TokenCounts", "bad_words_token_ids"]


class TokenCounts:
    """The distinct tokens of prompt and output, and how often each is in the output. One token is added in O(1)."""

    def __init__(self, prompt_token_ids: Iterable[int]) -> None:
        distinct = dict.fromkeys(prompt_token_ids)
        self._slots = {token_id: slot for slot, token_id in enumerate(distinct)}
        self._token_ids = np.fromiter(distinct, np.int64, len(distinct))
        self._counts = np.zeros(len(distinct), np.float32)

    def append(self, token_id: int) -> None:
        """Count one more output token."""
        slot = self._slots.setdefault(token_id, len(self._slots))
        if slot == self._token_ids.size:
            self._grow()
        self._token_ids[slot] = token_id
        self._counts[slot] += 1

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """``[D]``, each token of prompt and output once."""
        return self._token_ids[: len(self._slots)]

    @property
    def output_counts(self) -> NDArray[np.float32]:
        """``[D]``, how often each of ``token_ids`` is in the output."""
        return self._counts[: len(self._slots)]

    def _grow(self) -> None:
        extra = max(64, self._token_ids.size)
        self._token_ids = np.concatenate([self._token_ids, np.zeros(extra, np.int64)])
        self._counts = np.concatenate([self._counts, np.zeros(extra, np.float32)])


class LogitsAdjuster:
    """Applies one sequence's masks, biases and penalties; knows its prompt and its output so far.

    Args:
        prompt_token_ids: read once, and only if there is a penalty.
        end_token_ids: tokens that may not be sampled before ``min_tokens``.
        bad_words: token sequences (see ``bad_words_token_ids``).
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_token_ids: Iterable[int],
        end_token_ids: Iterable[int],
        bad_words: Iterable[Sequence[int]],
    ) -> None:
        self._params = params
        self._output: list[int] = []
        self._allowed = _indices(params.allowed_token_ids or ())
        self._bad_words = [tuple(word) for word in bad_words]
        self._end_token_ids = _indices(end_token_ids)
        bias = params.logit_bias or {}
        self._bias_ids, self._biases = _indices(bias), np.fromiter(bias.values(), np.float32, len(bias))
        penalties = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
        self._counts = TokenCounts(prompt_token_ids) if penalties != (1.0, 0.0, 0.0) else None
        self._always_active = bool(self._allowed.size or self._bad_words or bias) or self._counts is not None

    @property
    def output_length(self) -> int:
        return len(self._output)

    @property
    def active(self) -> bool:
        """Whether the next row of logits would be changed."""
        return self._always_active or len(self._output) < self._params.min_tokens

    def append(self, token_id: int) -> None:
        """Take note of one more output token."""
        self._output.append(token_id)
        if self._counts is not None:
            self._counts.append(token_id)

    def apply(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A changed copy of ``logits`` ``[vocab]``."""
        if self._allowed.size:
            adjusted = np.full_like(logits, -np.inf)
            adjusted[self._allowed] = logits[self._allowed]
        else:
            adjusted = logits.copy()
        for *prefix, last in self._bad_words:
            if not prefix or self._output[-len(prefix) :] == prefix:
                adjusted[last] = -np.inf
        if len(self._output) < self._params.min_tokens:
            adjusted[self._end_token_ids] = -np.inf
        adjusted[self._bias_ids] += self._biases
        if self._counts is not None:
            self._penalize(adjusted, self._counts)
        return adjusted

    def _penalize(self, logits: NDArray[np.float32], counts: TokenCounts) -> None:
        repetition, output_counts = np.float32(self._params.repetition_penalty), counts.output_counts
        values = logits[counts.token_ids]
        with np.errstate(all="ignore"):
            values = np.where(values > 0, values / repetition, values * repetition)
        values -= np.float32(self._params.frequency_penalty) * output_counts
        values -= np.float32(self._params.presence_penalty) * (output_counts > 0)
        logits[counts.token_ids] = values


def bad_words_token_ids(words: Sequence[str], tokenizer: Tokenizer | None) -> list[tuple[int, ...]]:
    """Token sequences of ``words``, each at the start of a text and, where its first token differs, after a space.

    Raises:
        RequestError: there is no tokenizer, or a word has no tokens.
    """
    if not words:
        return []
    if tokenizer is None:
        raise RequestError(f"bad_words needs a tokenizer, and the engine has none; got bad_words={list(words)!r}")
    sequences: list[tuple[int, ...]] = []
    for word in words:
        plain = tuple(tokenizer.encode(word.lstrip(), add_special_tokens=False))
        spaced = tuple(tokenizer.encode(" " + word.lstrip(), add_special_tokens=False))
        if not plain:
            raise RequestError(f"bad_words must hold texts of at least one token, got {word!r}")
        sequences.append(plain)
        if len(spaced) == len(plain) and spaced[0] != plain[0]:
            sequences.append(spaced)
    return sequences


def _indices(token_ids: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(token_ids), np.int64)
