"""The headers of messages, which name the tool that a call is addressed to."""

from __future__ import annotations

from modelhost.api.parsing import MarkedText, ReasoningEngine

MESSAGE = "<|message_model|>"


class MessageHeaders(ReasoningEngine):
    """Parser that leaves out `<|message_model|>` and, if the message is a call, what stands between the two markers.

    The call repeats the tool's name. All other text passes as it is.

    Args:
        call: the marker of a call.
        others: the other markers that end a header.
        in_header: the prompt ended with the first message's marker.
    """

    def __init__(self, call: str, others: tuple[str, ...], *, in_header: bool) -> None:
        super().__init__()
        self._call = call
        self._message = MarkedText(MESSAGE)
        self._after = MarkedText(MESSAGE, call, *others)
        self._header: list[str] = []
        if in_header:
            self.state = self._in_header

    def start(self) -> bool:
        """Outside headers."""
        text, marker = self._message.read(self)
        self.content(text)
        if marker is None:
            return False
        self.state = self._in_header
        return True

    def _in_header(self) -> bool:
        text, marker = self._after.read(self)
        self._header.append(text)
        if marker is None:
            return False
        if marker == self._call:
            self._header = []
        self.close()
        if marker != MESSAGE:
            self.content(marker)
            self.state = self.start
        return True

    def close(self) -> None:
        header, self._header = "".join(self._header), []
        self.content(header)
