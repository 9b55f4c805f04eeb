"""One sequence on its way through the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from modelhost.api.speculator import Draft

from .sampling_params import SamplingParams

if TYPE_CHECKING:
    from .sampler import SamplingState

Status = Literal["waiting", "running", "finished"]


@dataclass(eq=False, slots=True)
class Request:
    """A prompt and what has been generated after it.

    Attributes:
        id: unique in the engine.
        prompt_token_ids: at least one token.
        params: how to sample.
        sampling: state of the sampler. Set by the engine.
        priority: lower runs first under the ``priority`` policy.
        arrival: monotonic seconds.
        output_token_ids: generated so far. Written by the engine.
        computed: tokens whose keys and values are in the cache. Written by the scheduler and the engine.
        cached: prompt tokens that were in the cache when the request was first scheduled. Written by the scheduler.
        status: written by the scheduler.
        draft: tokens proposed after the last one, not yet verified. Written by speculation.
    """

    id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    sampling: SamplingState
    priority: int = 0
    arrival: float = field(default_factory=time.monotonic)
    output_token_ids: list[int] = field(default_factory=list)
    computed: int = 0
    cached: int = 0
    status: Status = "waiting"
    draft: Draft | None = None

    @property
    def prompt_length(self) -> int:
        return len(self.prompt_token_ids)

    @property
    def length(self) -> int:
        """Tokens of the prompt and the answer so far."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    def tokens(self, start: int, end: int) -> list[int]:
        """Tokens ``start .. end-1`` of prompt, answer and draft together."""
        prompt, length = self.prompt_length, self.length
        tokens = self.prompt_token_ids[start:end] + self.output_token_ids[max(0, start - prompt) : max(0, end - prompt)]
        if self.draft is not None and end > length:
            tokens += list(self.draft.token_ids)[max(0, start - length) : end - length]
        return tokens

    @property
    def draft_length(self) -> int:
        """Tokens in the draft."""
        return 0 if self.draft is None else len(self.draft.token_ids)
