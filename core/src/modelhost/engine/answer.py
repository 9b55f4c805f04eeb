"""Turns the tokens of one sequence into text, and decides when it ends."""

from __future__ import annotations

from modelhost.api import ModelHostError
from modelhost.text.tokenizer import Tokenizer

from .outputs import CompletionOutput, FinishReason, TokenLogprobs
from .reading import OutputReader, TokenPlaces
from .request import Request
from .stopping import StopStrings, TokenStops


class Answer:
    """One sequence and the output that grows with it.

    Args:
        request: the sequence.
        index: of the answer among those of its prompt.
        tokenizer: for text; ``None`` leaves the text empty.
        stops: which tokens end it.
        reader: finds reasoning, content and calls in the text.

    Attributes:
        error: why the answer could not be read, with the ``finish_reason`` ``"error"``.
    """

    def __init__(
        self,
        request: Request,
        index: int,
        tokenizer: Tokenizer | None,
        stops: TokenStops,
        reader: OutputReader | None = None,
    ) -> None:
        params = request.params
        self.request = request
        self.output = CompletionOutput(index)
        self._stops = stops
        self._stream = (
            tokenizer.stream(request.prompt_token_ids, skip_special_tokens=params.skip_special_tokens)
            if tokenizer is not None and params.detokenize
            else None
        )
        self._strings = StopStrings(params.stop, params.include_stop_str_in_output)
        self._reader = reader if self._stream is not None else None
        self._places = TokenPlaces()
        self.error: ModelHostError | None = None
        if params.logprobs is not None:
            self.output.logprobs = []
            self.output.cumulative_logprob = 0.0

    def push(self, token_id: int, logprobs: TokenLogprobs | None) -> None:
        """Take the next token."""
        self.request.output_token_ids.append(token_id)
        self.output.token_ids.append(token_id)
        if logprobs is not None and self.output.logprobs is not None:
            self.output.logprobs.append(logprobs)
            self.output.cumulative_logprob = (self.output.cumulative_logprob or 0.0) + logprobs[token_id].logprob
        ending = self._stops.check(self.output.token_ids, self.request.prompt_length)
        if self._stream is not None and not (ending is not None and ending.hides_token):
            text = self._stream.push(token_id)
            self._places.push(token_id, text)
            self._emit(text)
        if ending is not None:
            self.finish(ending.finish_reason, ending.stop_reason)

    def finish(self, reason: FinishReason, stop_reason: int | str | None = None) -> None:
        """End the answer and release the text that was held back."""
        if self.output.finished:
            return
        if self._stream is not None:
            self._emit(self._stream.finish())
        if not self.output.finished:
            self._append(self._strings.finish())
            self._end(reason, stop_reason)

    def _emit(self, text: str) -> None:
        if not text:
            return
        check = len(self.output.token_ids) > self.request.params.min_tokens
        emitted, stopped_on = self._strings.push(text, check)
        self._append(emitted)
        if stopped_on is not None:
            self._end("stop", stopped_on)

    def _append(self, text: str) -> None:
        self.output.text += text
        self.output.delta += text
        if self._reader is not None and text:
            tokens = self._places.take(len(self.output.text))
            try:
                self._reader.feed(self.output, text, tokens)
            except ModelHostError as error:
                self._fail(error)

    def _end(self, reason: FinishReason, stop_reason: int | str | None) -> None:
        if self.output.finished:
            return
        self.output.stop_reason = stop_reason
        if self._reader is not None:
            try:
                reason = self._reader.finish(self.output, reason)
            except ModelHostError as error:
                self._fail(error)
                return
        self.output.finish_reason = reason

    def _fail(self, error: ModelHostError) -> None:
        self._reader = None
        self.error = error
        self.output.finish_reason = "error"
