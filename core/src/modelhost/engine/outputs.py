"""What an engine returns. Names are vLLM's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from modelhost.api import ModelHostError

from .logprobs import Logprob

FinishReason = Literal["stop", "length", "abort", "error"]
TokenLogprobs = dict[int, Logprob]


@dataclass(slots=True)
class CompletionOutput:
    """One answer to a prompt.

    Attributes:
        index: of the answer among the ``n`` that were asked for.
        text: the answer so far.
        token_ids: its tokens.
        cumulative_logprob: sum of the tokens' log-probabilities, when they were asked for.
        logprobs: for each token the log-probabilities by token id, when they were asked for.
        finish_reason: ``"stop"`` (end of sequence, stop token or stop string), ``"length"``, ``"abort"`` or
            ``"error"``; ``None`` while the answer goes on.
        stop_reason: the stop token or string that ended it, if one did.
        delta: the text that is new since the last output.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    delta: str = ""

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass(slots=True)
class RequestOutput:
    """A request and its answers so far.

    Attributes:
        request_id: as given or made up.
        prompt: its text, when it was given as text.
        prompt_token_ids: its tokens.
        prompt_logprobs: for each prompt token the log-probabilities by token id, ``None`` for the first; only when
            asked for.
        num_cached_tokens: prompt tokens that were in the cache already.
        error: why the request could not go on, for the ``finish_reason`` ``"error"``.
        outputs: one for each of the ``n`` answers.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    num_cached_tokens: int = 0
    error: ModelHostError | None = None

    @property
    def finished(self) -> bool:
        return all(output.finished for output in self.outputs)
