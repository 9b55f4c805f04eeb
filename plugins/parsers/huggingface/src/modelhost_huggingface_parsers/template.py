"""Response templates: what a checkpoint says about how its answers are read.

The form is that of transformers (docs/source/en/chat_response_parsing.md, version 1): `start_anchor` begins an answer;
each of `fields` is a region of it between two delimiters, which are texts or regular expressions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import regex

from modelhost.api import TokenizerError, UnsupportedError

from .values import CONTENT_PARSERS

Kind = Literal["reasoning", "content", "calls"]

_KINDS: Mapping[str, Kind] = {
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_content": "reasoning",
    "content": "content",
    "tool_calls": "calls",
}
_ANCHORS = {"start_anchor", "start_anchor_pattern"}
_TEMPLATE_KEYS = {"version", "defaults", "fields", *_ANCHORS}
_DELIMITERS = {"open", "open_pattern", "close", "close_pattern"}
_FIELD_KEYS = {*_DELIMITERS, "content", "content_args", "repeats", "join", "optional", "transform", "transform_each"}
_WHERE = "tokenizer_config.json, response_template"
_ALONE = regex.compile(r"\\[1-9gk]|\(\?P=|\(\?[a-zA-Z&(]")  # references and flags, which count in the whole pattern


@dataclass(frozen=True, slots=True)
class Delimiter:
    """What begins or ends a region.

    Attributes:
        pattern: what it looks like.
        fixed: a complete match is never the beginning of a longer one.
    """

    pattern: regex.Pattern[str]
    fixed: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """The delimiters that may come next.

    Attributes:
        delimiters: each with its field, and whether it begins the field's region or ends it.
        any: finds where one of them may be; None where they cannot be put into one pattern.
    """

    delimiters: tuple[tuple[Field, Delimiter, bool], ...]
    any: regex.Pattern[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A region of an answer.

    Attributes:
        name: its key.
        kind: what it holds.
        open: what begins it; None for text that is in no other region.
        close: what ends it.
        content, arguments: how its text is read, and the settings of that.
        transform: form of the result, with the text in place of `{content}` and groups of `open` in place of theirs.
        each: `transform` is for each element of a list.
    """

    name: str
    kind: Kind
    open: Delimiter | None
    close: Delimiter | None
    content: str = "text"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    transform: Any = None
    each: bool = False


@dataclass(frozen=True, slots=True)
class ResponseTemplate:
    """How an answer is divided.

    Attributes:
        anchor: what an answer begins after.
        rest: the region of text that is in no other; None: such text is markup.
        outside: what may come next outside the other regions.
        within: what ends each of them, by name.
    """

    anchor: regex.Pattern[str]
    rest: Field | None
    outside: Watched
    within: Mapping[str, Watched]

    def beginning(self, prompt: str) -> str:
        """The part of a prompt that belongs to the answer; all of it where the anchor is missing."""
        ends = [match.end() for match in self.anchor.finditer(prompt)]
        return prompt[ends[-1] :] if ends else prompt


def response_template(specification: Mapping[str, Any] | None) -> ResponseTemplate:
    """The template of a checkpoint.

    Raises:
        UnsupportedError: there is none, or it asks for something that cannot be reported while text arrives.
        TokenizerError: it is malformed; the text names the key.
    """
    if specification is None:
        raise UnsupportedError(
            "the parsers 'hf' and 'beam' read answers as the checkpoint's tokenizer_config.json says in "
            "response_template, which it does not have; choose the parser of the model's family"
        )
    return _read(json.dumps(specification))


@lru_cache(maxsize=16)
def _read(text: str) -> ResponseTemplate:
    specification = json.loads(text)
    _known_keys(specification, _TEMPLATE_KEYS, _WHERE)
    if specification.get("version", 1) != 1:
        raise UnsupportedError(f"{_WHERE}.version: {specification['version']!r} is not 1, the only known version")
    anchor = _delimiter(specification, "start_anchor", _WHERE)
    if anchor is None:
        raise TokenizerError(f"{_WHERE}: lacks start_anchor, the text that an answer begins after")
    fields = specification.get("fields")
    if not isinstance(fields, dict) or not fields:
        raise TokenizerError(f"{_WHERE}.fields: must be an object with a region at least, got {fields!r}")
    read = tuple(_field(name, value) for name, value in fields.items())
    rest = [one for one in read if one.open is None]
    if len(rest) > 1:
        raise TokenizerError(f"{_WHERE}.fields: {rest[0].name} and {rest[1].name} both lack what begins them")
    if not rest and all(one.kind != "content" for one in read):
        rest = [Field(name="content", kind="content", open=None, close=None)]
    outside = [(one, one.open, True) for one in read if one.open is not None]
    outside += [(one, one.close, False) for one in rest if one.close is not None]
    within = {one.name: _watched([(one, one.close, False)] if one.close else []) for one in read}
    return ResponseTemplate(anchor.pattern, rest[0] if rest else None, _watched(outside), within)


def _watched(delimiters: list[tuple[Field, Delimiter, bool]]) -> Watched:
    patterns = [delimiter.pattern.pattern for _, delimiter, _ in delimiters]
    together = not any(_ALONE.search(pattern) for pattern in patterns)
    pattern = "|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)"
    return Watched(tuple(delimiters), regex.compile(pattern, regex.DOTALL) if together else None)


def _field(name: str, value: Any) -> Field:
    where = f"{_WHERE}.fields.{name}"
    if not isinstance(value, dict):
        raise TokenizerError(f"{where}: must be an object, got {value!r}")
    _known_keys(value, _FIELD_KEYS, where)
    kind = _KINDS.get(name)
    if kind is None:
        raise UnsupportedError(f"{where}: is none of {', '.join(_KINDS)}, which a chat's answer has")
    content = value.get("content", "text")
    if content not in CONTENT_PARSERS:
        raise UnsupportedError(f"{where}.content: {content!r} is none of {', '.join(CONTENT_PARSERS)}")
    if kind != "calls" and (content != "text" or value.get("transform") is not None or value.get("join") is not None):
        raise UnsupportedError(f"{where}: only plain text can be reported while it arrives")
    return Field(
        name=name,
        kind=kind,
        open=_delimiter(value, "open", where),
        close=_delimiter(value, "close", where),
        content=content,
        arguments=value.get("content_args", {}),
        transform=value.get("transform"),
        each=bool(value.get("transform_each", False)),
    )


def _known_keys(value: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in value:
        if key not in known:
            raise UnsupportedError(f"{where}.{key}: is not a key of version 1 of response templates")


def _delimiter(value: Mapping[str, Any], key: str, where: str) -> Delimiter | None:
    pattern = f"{key}_pattern"
    if key in value and pattern in value:
        raise TokenizerError(f"{where}: has both {key} and {pattern}; one of them must go")
    if pattern in value:
        try:
            return Delimiter(regex.compile(value[pattern], regex.DOTALL), fixed=False)
        except (regex.error, TypeError) as error:
            raise TokenizerError(f"{where}.{pattern}: is no regular expression: {error}") from error
    if key not in value:
        return None
    texts = [value[key]] if isinstance(value[key], str) else value[key]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise TokenizerError(f"{where}.{key}: must be a text or a list of texts, got {value[key]!r}")
    longest_first = sorted(texts, key=len, reverse=True)
    fixed = not any(one != other and one.startswith(other) for one in texts for other in texts)
    return Delimiter(regex.compile("|".join(map(regex.escape, longest_first)), regex.DOTALL), fixed)
