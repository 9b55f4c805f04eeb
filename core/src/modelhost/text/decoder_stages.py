"""The decoders of `tokenizers`, one token at a time.

`tokenizers` decodes a whole list of tokens by passing it through a chain of steps. Each class here is one such step
that takes tokens as they come and lets out text as soon as no later token can change it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from modelhost.api import UnsupportedError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
CLEAN_UP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""The replacements of `clean_up_tokenization_spaces`, in order."""


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: character to byte value."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(value): value for value in printable}
    rest = (value for value in range(256) if value not in set(printable))
    return alphabet | {chr(256 + offset): value for offset, value in enumerate(rest)}


def byte_level_bytes(token: str) -> bytes:
    """The bytes of a byte-level token; a token with a character outside the byte alphabet stands for its own text."""
    alphabet = byte_alphabet()
    try:
        return bytes([alphabet[character] for character in token])
    except KeyError:
        return token.encode()


def byte_token_value(token: str) -> int | None:
    """The byte of a `<0xXX>` token, None for any other token."""
    match = _BYTE_TOKEN.match(token)
    return int(match[1], 16) if match else None


class Stage:
    """One step. `feed` takes a token (or, after fusing, a stretch of text), `finish` tells that there are no more."""

    def feed(self, piece: str) -> Sequence[str]:
        return (piece,)

    def finish(self) -> Sequence[str]:
        return ()


class MapStage(Stage):
    """A step that changes each token by itself."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self._function = function

    def feed(self, piece: str) -> Sequence[str]:
        return (self._function(piece),)


class PositionStage(Stage):
    """A step that treats the first token unlike the others."""

    def __init__(self, first: Callable[[str], str], later: Callable[[str], str]) -> None:
        self._function, self._later = first, later

    def feed(self, piece: str) -> Sequence[str]:
        text = self._function(piece)
        self._function = self._later
        return (text,)


class LastStage(Stage):
    """A step that treats the last token unlike the others, and so holds one token back."""

    def __init__(self, earlier: Callable[[str], str], last: Callable[[str], str]) -> None:
        self._earlier, self._last = earlier, last
        self._held: str | None = None

    def feed(self, piece: str) -> Sequence[str]:
        held, self._held = self._held, piece
        return () if held is None else (self._earlier(held),)

    def finish(self) -> Sequence[str]:
        held, self._held = self._held, None
        return () if held is None else (self._last(held),)


class ByteLevelStage(Stage):
    """Byte-level tokens to text; holds the bytes of an incomplete character back."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: str) -> Sequence[str]:
        return (self._decoder.decode(byte_level_bytes(piece)),)

    def finish(self) -> Sequence[str]:
        return (self._decoder.decode(b"", True),)


class ByteFallbackStage(Stage):
    """`<0xXX>` tokens to text. A run of them that is not UTF-8 as a whole becomes one U+FFFD a byte, as in
    `tokenizers`, so a run is held back until it ends."""

    def __init__(self) -> None:
        self._run = bytearray()

    def feed(self, piece: str) -> Sequence[str]:
        value = byte_token_value(piece)
        if value is None:
            return (*self.finish(), piece)
        self._run.append(value)
        return ()

    def finish(self) -> Sequence[str]:
        run = bytes(self._run)
        self._run.clear()
        try:
            return (run.decode(),) if run else ()
        except UnicodeDecodeError:
            return ("\ufffd" * len(run),)


class StripStage(Stage):
    """Removes up to `start` leading and `stop` trailing copies of a character from the whole text."""

    def __init__(self, content: str, start: int, stop: int) -> None:
        self._content, self._start, self._stop = content, start, stop
        self._held = ""

    def feed(self, piece: str) -> Sequence[str]:
        while self._start and piece:
            if not piece.startswith(self._content):
                self._start = 0
                break
            piece, self._start = piece[1:], self._start - 1
        text = self._held + piece
        kept = len(text) - min(self._stop, len(text) - len(text.rstrip(self._content)))
        self._held = text[kept:]
        return (text[:kept],)


class ReplaceStage(Stage):
    """`str.replace` over text that comes in stretches; holds back what may be the start of a match."""

    def __init__(self, pattern: str, content: str) -> None:
        self._pattern, self._content = pattern, content
        self._held = ""

    def feed(self, piece: str) -> Sequence[str]:
        *done, rest = (self._held + piece).split(self._pattern)
        size = min(len(rest), len(self._pattern) - 1)
        while size and not self._pattern.startswith(rest[-size:]):
            size -= 1
        kept = len(rest) - size
        self._held = rest[kept:]
        return (self._content.join([*done, rest[:kept]]),)

    def finish(self) -> Sequence[str]:
        held, self._held = self._held, ""
        return (held,)


def clean_up(text: str) -> str:
    """Remove the spaces that word-level decoding leaves before punctuation and English contractions."""
    for pattern, content in CLEAN_UP:
        text = text.replace(pattern, content)
    return text


def clean_up_stages() -> list[Stage]:
    """`clean_up` for text that comes in stretches."""
    return [ReplaceStage(pattern, content) for pattern, content in CLEAN_UP]


def decoder_stages(specification: Mapping[str, Any] | None) -> list[Stage]:
    """The steps of a decoder, given as in the `decoder` field of a tokenizer.json; new state on each call.

    Raises:
        UnsupportedError: the decoder, or its place in a sequence, is not one that can work token by token.
    """
    if specification is None:
        return [PositionStage(_same, lambda token: " " + token)]
    stages: list[Stage] = []
    fused = False
    for step in _steps(specification):
        stages.append(_fused_stage(step) if fused else _token_stage(step))
        fused = fused or step["type"] in ("Fuse", "ByteLevel")
    return stages


def _steps(specification: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if specification["type"] != "Sequence":
        return [specification]
    return [step for part in specification["decoders"] for step in _steps(part)]


def _token_stage(step: Mapping[str, Any]) -> Stage:
    match step["type"]:
        case "ByteLevel":
            return ByteLevelStage()
        case "ByteFallback":
            return ByteFallbackStage()
        case "Fuse":
            return Stage()
        case "Replace":
            return MapStage(_replacement(step))
        case "Strip":
            return MapStage(lambda token: _strip(token, step["content"], step["start"], step["stop"]))
        case "Metaspace":
            symbol = step["replacement"]
            spaced = _replacer(symbol, " ")
            never = step.get("prepend_scheme", "always") == "never"
            return PositionStage(spaced if never else _replacer(symbol, ""), spaced)
        case "WordPiece":
            tidy = clean_up_word if step["cleanup"] else _same
            return PositionStage(tidy, lambda token: tidy(_word_piece(token, step["prefix"])))
        case "BPEDecoder":
            return LastStage(_replacer(step["suffix"], " "), _replacer(step["suffix"], ""))
    raise UnsupportedError(f"The decoder {step['type']!r} of this tokenizer cannot decode token by token.")


def _fused_stage(step: Mapping[str, Any]) -> Stage:
    match step["type"]:
        case "Fuse":
            return Stage()
        case "Strip":
            return StripStage(step["content"], step["start"], step["stop"])
        case "Replace" if "String" in step["pattern"]:
            return ReplaceStage(step["pattern"]["String"], step["content"])
    raise UnsupportedError(f"The decoder {step['type']!r} after 'Fuse' or 'ByteLevel' cannot decode token by token.")


def clean_up_word(token: str) -> str:
    """The clean-up that the WordPiece decoder of `tokenizers` does within one token."""
    for pattern, content in (*CLEAN_UP[:7], (" do not", " don't"), *CLEAN_UP[7:]):
        token = token.replace(pattern, content)
    return token


def _word_piece(token: str, prefix: str) -> str:
    return token[len(prefix) :] if token.startswith(prefix) else " " + token


def _replacement(step: Mapping[str, Any]) -> Callable[[str], str]:
    pattern, content = step["pattern"], step["content"]
    if "String" in pattern:
        return _replacer(pattern["String"], content)
    raise UnsupportedError("A 'Replace' decoder with a regular expression cannot decode token by token.")


def _replacer(pattern: str, content: str) -> Callable[[str], str]:
    return lambda token: token.replace(pattern, content)


def _strip(token: str, content: str, start: int, stop: int) -> str:
    token = token[min(start, len(token) - len(token.lstrip(content))) :]
    return token[: len(token) - min(stop, len(token) - len(token.rstrip(content)))]


def _same(token: str) -> str:
    return token


def token_bytes(token: str, specification: Mapping[str, Any] | None) -> bytes:
    """The bytes that a token adds to the output in the middle of a text."""
    kinds = {step["type"]: step for step in _steps(specification)} if specification else {}
    value = byte_token_value(token) if "ByteFallback" in kinds else None
    if value is not None:
        return bytes([value])
    if "ByteLevel" in kinds:
        return byte_level_bytes(token)
    # The first token tells a decoder that the second is not at the start.
    texts = [token]
    for stage in decoder_stages(specification):
        if isinstance(stage, (PositionStage, StripStage)):
            stage.feed("x")
        texts = [text for piece in texts for text in stage.feed(piece)] + list(stage.finish())
    return "".join(texts).encode()
