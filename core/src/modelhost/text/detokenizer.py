"""Text from token ids, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modelhost.api import TokenizerError

from .decoder_stages import Stage, byte_token_value

_CONTEXT = 32


class TextStream:
    """Incremental detokenisation.

    The pieces of text from `push` and `finish`, joined, are what decoding all ids at once gives, however the ids are
    split into calls. A character whose bytes are spread over several tokens is held back until it is whole, and
    invalid bytes come out as U+FFFD just as decoding at once shows them. A token costs constant time, amortised.

    With a prompt the stream gives its continuation: what decoding prompt and output together adds to the prompt's
    text. So only at the start of a text is a leading space stripped (where the tokenizer does that at all), and bytes
    that the prompt left incomplete are completed.
    """

    def __init__(
        self, token: Callable[[int], str | None], stages: Sequence[Stage], prompt_ids: Sequence[int] = ()
    ) -> None:
        """
        Args:
            token: the text of a token id in the vocabulary; None for an id that stands for no text.
            stages: the decoder's steps, with fresh state; this stream owns them.
            prompt_ids: what the output continues.
        """
        self._token = token
        self._stages = stages
        self._finished = False
        for text in _relevant([text for index in prompt_ids if (text := token(index)) is not None]):
            self._run(0, (text,))

    def push(self, token_id: int) -> str:
        """The text that is settled now that `token_id` came; often empty.

        Raises:
            TokenizerError: the stream is finished.
        """
        if self._finished:
            raise TokenizerError("This text stream is finished; start a new one for more tokens.")
        text = self._token(token_id)
        return "" if text is None else self._run(0, (text,))

    def finish(self) -> str:
        """What was held back. Ends the stream; calling it again gives an empty string."""
        if self._finished:
            return ""
        self._finished = True
        return "".join(self._run(index + 1, stage.finish()) for index, stage in enumerate(self._stages))

    def _run(self, first: int, pieces: Sequence[str]) -> str:
        for stage in self._stages[first:]:
            pieces = [text for piece in pieces for text in stage.feed(piece)]
        return "".join(pieces)


def _relevant(tokens: list[str]) -> list[str]:
    """The tokens of a prompt that the decoder's state after it depends on: the start, and the end from a token that
    is not a byte of a longer run."""
    cut = len(tokens) - _CONTEXT
    while cut > _CONTEXT and byte_token_value(tokens[cut]) is not None:
        cut -= 1
    return tokens if cut <= _CONTEXT else tokens[:_CONTEXT] + tokens[cut:]
