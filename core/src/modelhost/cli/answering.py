"""One answer: the steps of the engine, the text as it comes, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .interrupt import Interrupt

if TYPE_CHECKING:
    from modelhost.engine.chat import GenerationRequest
    from modelhost.engine.model import ServedModel
    from modelhost.engine.outputs import CompletionOutput, FinishReason


@dataclass(slots=True)
class Answer:
    """What came of a prompt.

    Attributes:
        prompt_tokens: number of tokens of the prompt.
        output: the answer.
        tokens: number of its tokens.
        finish_reason: ``None`` when Ctrl-C stopped it.
        first_token_seconds: from the start to the first token.
        seconds: from the start to the end.
    """

    prompt_tokens: int
    output: CompletionOutput | None = None
    tokens: int = 0
    finish_reason: FinishReason | None = None
    first_token_seconds: float = 0.0
    seconds: float = 0.0

    def timings(self) -> str:
        """Tokens and tokens per second of the prompt, and of the answer after its first token."""
        prompt = _rate(self.prompt_tokens, self.first_token_seconds)
        generated = _rate(self.tokens - 1, self.seconds - self.first_token_seconds)
        return (
            f"prompt: {self.prompt_tokens} tokens, {prompt}; answer: {self.tokens} tokens, {generated}; "
            f"first token after {self.first_token_seconds:.2f} s, {self.seconds:.2f} s in all"
        )


def answer(model: ServedModel, request: GenerationRequest, show: Callable[[CompletionOutput], None]) -> Answer:
    """Answer ``request``, handing each new output to ``show``. Ctrl-C stops it between two steps.

    Raises:
        RequestError: the prompt is empty or too long.
        PluginError: a parser failed on the answer.
        KeyboardInterrupt: at the second Ctrl-C.
    """
    engine, request_id = model.engine, model.next_id()
    prompt = request.prompt
    result = Answer(len(prompt.token_ids))
    engine.add_request(request_id, prompt.token_ids, request.params, prompt=prompt.text, readers=request.readers)
    started = time.perf_counter()
    try:
        with Interrupt() as interrupt:
            while engine.busy and not interrupt.requested:
                for output in engine.step():
                    completion = output.outputs[0]
                    result.first_token_seconds = result.first_token_seconds or time.perf_counter() - started
                    result.output, result.tokens = completion, len(completion.token_ids)
                    result.finish_reason = completion.finish_reason
                    show(completion)
                    if output.error is not None:
                        raise output.error
    finally:
        engine.abort(request_id)
    result.seconds = time.perf_counter() - started
    return result


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.1f} tokens/s" if tokens > 0 and seconds > 0 else "-"
