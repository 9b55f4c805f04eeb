"""Log-probabilities of tokens under a row of raw logits: the token itself, its rank and the best alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from modelhost.text.tokenizer import Tokenizer

__all__ = ["Logprob", "log_normalizer", "top_ids", "top_logprobs"]

_BLOCKS = 512


@dataclass(frozen=True, slots=True)
class Logprob:
    """The log-probability (natural logarithm) of one token at one position.

    Attributes:
        rank: 1 for the most likely token.
        decoded_token: the token's own text; None without a tokenizer, or for an id that it does not have.
    """

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


def top_logprobs(
    logits: NDArray[np.float32], token_id: int, count: int, tokenizer: Tokenizer | None = None
) -> dict[int, Logprob]:
    """Log-probabilities by token id: that of ``token_id`` first, then those of the ``count`` most likely tokens.

    The rank of ``token_id`` counts the tokens whose logit is at least its own, unless it is among the most likely ones,
    which have ranks 1 to ``count``: so in vllm/v1/sample/ops/logprobs.py and vllm/logprobs.py.

    Args:
        logits: float32 ``[vocab]`` as the model gave them, with a finite maximum.
        token_id: the token that was sampled, or that follows in the prompt.
        count: -1 for all.
    """
    best = top_ids(logits, logits.size if count == -1 else min(count, logits.size)).tolist()
    normalizer = log_normalizer(logits)
    ranks = {token_id: int(np.count_nonzero(logits >= logits[token_id]))}
    ranks.update(zip(best, range(1, len(best) + 1), strict=True))
    return {
        token: Logprob(float(logits[token]) - normalizer, rank, _text(token, tokenizer))
        for token, rank in ranks.items()
    }


def _text(token_id: int, tokenizer: Tokenizer | None) -> str | None:
    if tokenizer is None or token_id >= tokenizer.vocab_size:
        return None
    return tokenizer.decode([token_id], skip_special_tokens=False)


def log_normalizer(logits: NDArray[np.float32]) -> float:
    """log(sum(exp(logits))) of a row: exponentials in float32 relative to the maximum, summed in float64."""
    top = logits.max()
    with np.errstate(over="ignore"):
        total = np.exp(logits - top).sum(dtype=np.float64)
    return float(top) + float(np.log(total))


def top_ids(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Indices of the ``count`` largest of ``values`` ``[n]``, in descending order, the lower index first on a tie."""
    if count <= 0:
        return np.empty(0, np.int64)
    bound = _lower_bound(values, min(count, values.size))
    above = np.flatnonzero(values > bound)
    above = above[np.argsort(-values[above], kind="stable")]
    if above.size >= count:
        return above[:count]
    return np.concatenate([above, np.flatnonzero(values == bound)[: count - above.size]])


def _lower_bound(values: NDArray[np.float32], count: int) -> np.float32:
    """A value that at least ``count`` of ``values`` reach.

    The ``count``-th largest of the maxima of disjoint blocks is one: as many blocks have an element that reaches it.
    """
    block = values.size // max(_BLOCKS, 4 * count)
    maxima = np.maximum.reduceat(values, np.arange(0, values.size, block)) if block > 8 else values
    return np.partition(maxima, maxima.size - count)[maxima.size - count]  # type: ignore[no-any-return]
