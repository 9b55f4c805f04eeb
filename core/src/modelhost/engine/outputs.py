"""What an engine returns. Names are vLLM's."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Literal

from modelhost.api import ModelHostError
from modelhost.parsing.events import Event

from .logprobs import Logprob

FinishReason = Literal["stop", "length", "tool_calls", "abort", "error"]
TokenLogprobs = dict[int, Logprob]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The function that is called. ``arguments`` is JSON text; that of an answer that was cut off may be incomplete."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, in OpenAI's form. ``id`` is the model's own where it writes one."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


@dataclass(slots=True)
class CompletionOutput:
    """One answer to a prompt.

    Attributes:
        index: of the answer among the ``n`` that were asked for.
        text: the answer so far, as it was generated.
        token_ids: its tokens.
        cumulative_logprob: sum of the tokens' log-probabilities, when they were asked for.
        logprobs: for each token the log-probabilities by token id, when they were asked for.
        finish_reason: ``"stop"`` (end of sequence, stop token or stop string), ``"length"``, ``"tool_calls"`` (as
            ``"stop"``, with calls that were not forced on a named tool), ``"abort"`` or ``"error"``; ``None`` while the
            answer goes on.
        stop_reason: the stop token or string that ended it, if one did.
        delta: the text that is new since the last output.
        reasoning, content: what the text holds besides markup, of answers in a chat; ``None`` where there is none.
        tool_calls: the calls in it.
        events: what is new in these three since the last output.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    delta: str = ""
    reasoning: str | None = None
    content: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def begin_step(self) -> None:
        """Nothing is new yet."""
        self.delta = ""
        self.events = []

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


def snapshot(output: RequestOutput) -> RequestOutput:
    """A copy that later steps do not change."""
    result = copy(output)
    result.outputs = [copy(answer) for answer in output.outputs]
    for answer in result.outputs:
        answer.token_ids = list(answer.token_ids)
        answer.tool_calls = list(answer.tool_calls)
    return result
