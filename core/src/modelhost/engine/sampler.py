"""From logits to the next token. Every row is computed alone, so a result does not depend on the rest of the batch.

The order is that of vLLM's V1 sampler (vllm/v1/sample/sampler.py): log-probabilities of the raw logits; masks, biases
and penalties; the greedy choice, or temperature, min_p, top_k, top_p and one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from modelhost.api import ModelHostError
from modelhost.api.backend import LogitOps

from .candidates import candidates, choose
from .logit_ops import NUMPY
from .logprobs import Logprob, top_logprobs
from .penalties import LogitsAdjuster, bad_words_token_ids
from .sampling_params import SamplingParams

if TYPE_CHECKING:
    from modelhost.text.tokenizer import Tokenizer

__all__ = ["Sampled", "Sampler", "SamplingError", "SamplingState", "distribution"]

Logits = NDArray[np.float32]


class SamplingError(ModelHostError):
    """The logits of one sequence leave nothing to sample; ``request_id`` says whose."""

    def __init__(self, request_id: str, text: str) -> None:
        super().__init__(text)
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sampled token, and its log-probabilities by token id where the parameters ask for them."""

    token_id: int
    logprobs: dict[int, Logprob] | None = None


@dataclass(slots=True)
class SamplingState:
    """What sampling has to remember of one sequence. Made by ``Sampler.state``.

    Attributes:
        request_id: named in errors.
        params: of the request.
        adjuster: its masks, biases and penalties, with the tokens seen so far.
        generator: its own random numbers: one for every token that is not greedy.
    """

    request_id: str
    params: SamplingParams
    adjuster: LogitsAdjuster
    generator: np.random.Generator
    _uniform: float | None = field(default=None, init=False)

    def uniform(self) -> float:
        """The random number in [0, 1) for the next token: the same until the token is known. 0 for a greedy one."""
        if self.params.is_greedy:
            return 0.0
        if self._uniform is None:
            self._uniform = self.generator.random()
        return self._uniform

    def append(self, token_id: int) -> None:
        """Take note of the next token."""
        self._uniform = None
        self.adjuster.append(token_id)


class Sampler:
    """Samples the next tokens of any number of sequences.

    Args:
        seed: of the random numbers of requests that state none; None for the system's entropy.
        tokenizer: for the text of log-probabilities and for ``bad_words``.
        ops: what computes over the logits.
    """

    def __init__(self, seed: int | None = None, tokenizer: Tokenizer | None = None, ops: LogitOps = NUMPY) -> None:
        self._seeds = np.random.SeedSequence(seed)
        self._tokenizer = tokenizer
        self._ops = ops

    def state(
        self,
        request_id: str,
        params: SamplingParams,
        prompt_token_ids: Iterable[int] = (),
        *,
        index: int = 0,
        eos_token_ids: Iterable[int] = (),
    ) -> SamplingState:
        """The state of a new sequence, number ``index`` of its request's ``n``: a seed is moved on by ``index``.

        Raises:
            RequestError: ``bad_words`` without a tokenizer, or with a word that has no tokens.
        """
        end_token_ids = [*eos_token_ids, *(params.stop_token_ids or ())]
        bad_words = bad_words_token_ids(params.bad_words or (), self._tokenizer)
        seed = self._seeds.spawn(1)[0] if params.seed is None else (params.seed + index) % 2**64
        return SamplingState(
            request_id,
            params,
            LogitsAdjuster(params, prompt_token_ids, end_token_ids, bad_words),
            np.random.Generator(np.random.Philox(seed)),
        )

    def sample_batch(self, logits: Logits, states: Sequence[SamplingState]) -> list[Sampled]:
        """One token for each row of ``logits``, float32 ``[S, vocab]``, left unchanged; row i belongs to ``states[i]``.

        Every state takes note of its token as part of the output.

        Raises:
            ValueError: the shapes do not fit.
            SamplingError: a row holds NaN or infinity, or no token is left. No state has changed then.
        """
        if logits.ndim != 2 or len(logits) != len(states):
            raise ValueError(f"logits of shape {list(logits.shape)} do not fit {len(states)} sequences")
        rows = list(logits)
        adjusted = _adjusted(self._ops, rows, states)
        params, uniforms = [state.params for state in states], [state.uniform() for state in states]
        token_ids = choose(self._ops, adjusted, params, uniforms).tolist()
        if -1 in token_ids:
            place = token_ids.index(-1)
            raise _error(rows[place], adjusted[place], states[place])
        return [self.record(*each) for each in zip(rows, states, token_ids, strict=True)]

    def sample(self, logits: Logits, state: SamplingState) -> Sampled:
        """``sample_batch`` for one sequence and its row of logits, float32 ``[vocab]``."""
        return self.sample_batch(logits[None], [state])[0]

    def record(self, logits: Logits, state: SamplingState, token_id: int) -> Sampled:
        """Take note of ``token_id``, chosen for the row ``logits``, as part of the output."""
        state.append(token_id)
        count = state.params.logprobs
        if count is None:
            return Sampled(token_id)
        return Sampled(token_id, top_logprobs(logits, token_id, count, self._tokenizer, self._ops))

    def distribution(self, logits: Logits, state: SamplingState) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """:func:`distribution`, by this sampler's operations."""
        return distribution(logits, state, self._ops)


def distribution(
    logits: Logits, state: SamplingState, ops: LogitOps = NUMPY
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distribution that the next token would be drawn from. The state does not change.

    Returns:
        Token ids, int64 ``[C]``, in no order, and their probabilities, float64 ``[C]``: all above 0, with the sum 1.

    Raises:
        SamplingError: as ``Sampler.sample_batch``.
    """
    (adjusted,) = _adjusted(ops, [logits], [state])
    best = ops.argmax([adjusted])
    if not np.isfinite(adjusted[best[0]]):
        raise _error(logits, adjusted, state)
    return (best, np.ones(1)) if state.params.is_greedy else candidates(ops, adjusted, state.params)


def _adjusted(ops: LogitOps, rows: Sequence[Logits], states: Sequence[SamplingState]) -> list[Logits]:
    """The rows as masks, biases and penalties change them.

    Raises:
        SamplingError: one of those that they change holds NaN or infinity, or nothing but -inf.
    """
    result = list(rows)
    changed = [place for place, state in enumerate(states) if state.adjuster.active]
    best = ops.argmax([rows[place] for place in changed]).tolist() if changed else []
    for place, token_id in zip(changed, best, strict=True):
        row, state = rows[place], states[place]
        if not np.isfinite(row[token_id]):
            raise _error(row, row, state)
        result[place] = state.adjuster.apply(row)
    return result


def _error(logits: Logits, adjusted: Logits, state: SamplingState) -> SamplingError:
    """Why there is nothing to sample from ``adjusted``, which masks, biases and penalties made of ``logits``."""
    name, top = f"request {state.request_id!r}", logits.max()
    if not np.isfinite(top):
        if top == -np.inf:
            found = "are all -inf"
        else:
            found = f"hold {'NaN' if np.isnan(top) else 'inf'}, first at token {int(logits.argmax())} of {logits.size}"
        reason = (
            f"the logits of {name} {found}: the weights are damaged or the computation overflowed. "
            "Run the request on the reference backend, or in float32, to tell which."
        )
    elif adjusted.max() == -np.inf:
        reason = (
            f"{name} has no token left to sample: its allowed_token_ids, bad_words and min_tokens and the model's own "
            "-inf logits together rule out every token. Loosen one of them."
        )
    else:
        reason = (
            f"{name} has a repetition_penalty, {state.params.repetition_penalty}, that takes logits out of float32's "
            "range."
        )
    return SamplingError(state.request_id, reason)
