"""How a family writes its calls, as plain data: what a grammar engine needs to hold generation to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_NAME, _ARGUMENTS = "NAME", "ARGUMENTS"
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

ArgumentStyle = Literal[
    "json",
    "qwen_xml",
    "glm_xml",
    "minimax_xml",
    "minimax_m3_xml",
    "deepseek_xml",
    "deepseek_v4_1_xml",
    "kimi_k3_xml",
]
"""How arguments are written; the values of ``style`` in XGrammar's format ``json_schema``."""


@dataclass(frozen=True, slots=True)
class CallTag:
    """A call of one tool: fixed text, arguments that follow a schema, fixed text.

    Attributes:
        name: of the tool.
        begin, end: the fixed texts.
        schema: JSON schema of the arguments.
        arguments: how they are written.
    """

    name: str
    begin: str
    schema: Mapping[str, Any]
    end: str
    arguments: ArgumentStyle = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGrammar:
    """What an output with calls may look like.

    Attributes:
        tags: the calls that are allowed, one for each tool.
        trigger: the text with which the constraint takes effect.
        required: the output is calls; otherwise it is text in which calls may stand.
        parallel: several calls may follow each other.
        begin, separator, end: text around and between the calls of one block.
    """

    tags: tuple[CallTag, ...]
    trigger: str
    required: bool
    parallel: bool = True
    begin: str = ""
    separator: str = ""
    end: str = ""

    def structural_tag(self) -> dict[str, Any]:
        """The same as a structural tag of XGrammar, which vLLM takes as ``structured_outputs.structural_tag``."""
        tags = [_tag(tag.begin, _content(tag), tag.end) for tag in self.tags]
        once = not self.parallel
        if self.begin or self.separator or self.end:
            calls = {
                "type": "tags_with_separator",
                "tags": tags,
                "separator": self.separator,
                "at_least_one": True,
                "stop_after_first": once,
            }
            tags, once = [_tag(self.begin, calls, self.end)], True
        form = {
            "type": "triggered_tags",
            "triggers": [self.trigger],
            "tags": tags,
            "at_least_one": self.required,
            "stop_after_first": once,
        }
        return {"type": "structural_tag", "format": form}


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """A call as the model itself writes it, white space included.

    Attributes:
        call: its text with NAME and ARGUMENTS in their places, such as ``<call>{"name": "NAME", "args": ARGUMENTS}``.
        begin, separator, end: text around and between the calls of one block.
        arguments: how the arguments are written; None: in a notation that no grammar is known for, so that a call can
            be begun and not be held to a schema.
        single: the text of one call does not make several by being repeated, as where each states its number.
    """

    call: str
    begin: str = ""
    separator: str = ""
    end: str = ""
    arguments: ArgumentStyle | None = "json"
    single: bool = False

    def grammar(self, tools: Sequence[Mapping[str, Any]], *, required: bool, parallel: bool) -> CallGrammar | None:
        """The grammar of calls of ``tools``, in OpenAI form; None where the arguments have none."""
        style = self.arguments
        if style is None:
            return None
        return CallGrammar(
            tags=tuple(self._tag(tool["function"], style) for tool in tools),
            trigger=self.begin or self.call.partition(_NAME)[0],
            required=required,
            parallel=parallel and not self.single,
            begin=self.begin,
            separator=self.separator,
            end=self.end,
        )

    def opening(self, name: str) -> str:
        """The text up to where the arguments of a first call of the tool ``name`` are open."""
        before = self.begin + self.call.partition(_ARGUMENTS)[0].replace(_NAME, name)
        return before + "{" if self.arguments == "json" else before

    def _tag(self, function: Mapping[str, Any], style: ArgumentStyle) -> CallTag:
        before, _, after = self.call.partition(_ARGUMENTS)
        name = function["name"]
        schema = function.get("parameters") or _ANY_OBJECT
        return CallTag(name, before.replace(_NAME, name), schema, after, style)


def _tag(begin: str, content: Mapping[str, Any], end: str) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _content(tag: CallTag) -> dict[str, Any]:
    style = {} if tag.arguments == "json" else {"style": tag.arguments}
    return {"type": "json_schema", "json_schema": tag.schema, **style}
