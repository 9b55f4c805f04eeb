"""Log-probabilities of tokens under a row of raw logits: the token itself, its rank and the best alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .logit_ops import NUMPY

if TYPE_CHECKING:
    from modelhost.api.backend import LogitOps
    from modelhost.text.tokenizer import Tokenizer

__all__ = ["Logprob", "log_normalizer", "top_logprobs"]


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
    logits: NDArray[np.float32],
    token_id: int,
    count: int,
    tokenizer: Tokenizer | None = None,
    ops: LogitOps = NUMPY,
) -> dict[int, Logprob]:
    """Log-probabilities by token id: that of ``token_id`` first, then those of the ``count`` most likely tokens.

    The rank of ``token_id`` counts the tokens whose logit is at least its own, unless it is among the most likely ones,
    which have ranks 1 to ``count``: so in vllm/v1/sample/ops/logprobs.py and vllm/logprobs.py.

    Args:
        logits: float32 ``[vocab]`` as the model gave them, with a finite maximum.
        token_id: the token that was sampled, or that follows in the prompt.
        count: -1 for all.
        ops: find the most likely tokens.
    """
    best = ops.top_k([logits], logits.size if count == -1 else min(count, logits.size))[0].tolist()
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
