"""From logits to the next token. Every row is computed alone, so a result does not depend on the rest of the batch.

The order is that of vLLM's V1 sampler (vllm/v1/sample/sampler.py): log-probabilities of the raw logits; masks, biases
and penalties; the greedy choice, or temperature, min_p, top_k, top_p and one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from modelhost.api import ModelHostError

from .candidates import candidates, choose
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

    @property
    def takes_argmax(self) -> bool:
        """Whether the next token is the argmax of the raw logits and nothing else is asked for."""
        return self.params.is_greedy and self.params.logprobs is None and not self.adjuster.active


class Sampler:
    """Samples the next tokens of any number of sequences.

    Args:
        seed: of the random numbers of requests that state none; None for the system's entropy.
        tokenizer: for the text of log-probabilities and for ``bad_words``.
    """

    def __init__(self, seed: int | None = None, tokenizer: Tokenizer | None = None) -> None:
        self._seeds = np.random.SeedSequence(seed)
        self._tokenizer = tokenizer

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
        if all(state.takes_argmax for state in states):
            return self._argmax(logits, states)
        rows = [_adjusted(row, state) for row, state in zip(logits, states, strict=True)]
        return [self._finish(*each) for each in zip(logits, rows, states, strict=True)]

    def sample(self, logits: Logits, state: SamplingState) -> Sampled:
        """``sample_batch`` for one sequence and its row of logits, float32 ``[vocab]``."""
        return self._finish(logits, _adjusted(logits, state), state)

    def _argmax(self, logits: Logits, states: Sequence[SamplingState]) -> list[Sampled]:
        token_ids = logits.argmax(axis=1)
        if not np.isfinite(logits[np.arange(len(states)), token_ids]).all():
            for row, state in zip(logits, states, strict=True):
                _check(row, state)
        for token_id, state in zip(token_ids.tolist(), states, strict=True):
            state.adjuster.append(token_id)
        return [Sampled(token_id) for token_id in token_ids.tolist()]

    def _finish(self, logits: Logits, adjusted: Logits, state: SamplingState) -> Sampled:
        params = state.params
        token_id = int(adjusted.argmax()) if params.is_greedy else choose(adjusted, params, state.generator.random())
        return self.record(logits, state, token_id)

    def record(self, logits: Logits, state: SamplingState, token_id: int) -> Sampled:
        """Take note of ``token_id``, chosen for the row ``logits``, as part of the output."""
        state.adjuster.append(token_id)
        count = state.params.logprobs
        return Sampled(token_id, None if count is None else top_logprobs(logits, token_id, count, self._tokenizer))


def distribution(logits: Logits, state: SamplingState) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distribution that the next token would be drawn from. The state does not change.

    Returns:
        Token ids, int64 ``[C]``, in no order, and their probabilities, float64 ``[C]``: all above 0, with the sum 1.

    Raises:
        SamplingError: as ``Sampler.sample_batch``.
    """
    adjusted = _adjusted(logits, state)
    if state.params.is_greedy:
        return np.array([adjusted.argmax()], np.int64), np.ones(1)
    return candidates(adjusted, state.params)


def _adjusted(logits: Logits, state: SamplingState) -> Logits:
    _check(logits, state)
    if not state.adjuster.active:
        return logits
    adjusted = state.adjuster.apply(logits)
    top = adjusted.max()
    if np.isfinite(top):
        return adjusted
    if top == -np.inf:
        reason = (
            "has no token left to sample: its allowed_token_ids, bad_words and min_tokens and the model's own -inf "
            "logits together rule out every token. Loosen one of them."
        )
    else:
        reason = (
            f"has a repetition_penalty, {state.params.repetition_penalty}, that takes logits out of float32's range."
        )
    raise SamplingError(state.request_id, f"request {state.request_id!r} {reason}")


def _check(logits: Logits, state: SamplingState) -> None:
    top = logits.max()
    if np.isfinite(top):
        return
    if top == -np.inf:
        found = "are all -inf"
    else:
        found = f"hold {'NaN' if np.isnan(top) else 'inf'}, first at token {int(logits.argmax())} of {logits.size}"
    raise SamplingError(
        state.request_id,
        f"the logits of request {state.request_id!r} {found}: the weights are damaged or the computation overflowed. "
        "Run the request on the reference backend, or in float32, to tell which.",
    )
