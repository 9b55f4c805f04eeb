"""The recorded outputs of vLLM's parsers, and the table of the cases in which ours differ on purpose.

`goldens/KIND/NAME.json` holds the cases of a parser (KIND is tool, reasoning or combined).
`differences/KIND/NAME.toml` lists those whose result is another one, each group with its reason:

    [[difference]]
    reason = "why"
    as_streamed = ["case"]            # our result is the one that vLLM itself gives token by token

    [[difference]]
    reason = "why"
    [difference.results.case]         # our result in full; absent texts are empty
    content = "text"
    calls = [["get_weather", '{"city": "Paris"}']]
"""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from modelhost.api import ReasoningParser, ToolParser
from modelhost.api.parsing import NamedCall, Parsed, Parser, ParserContext, ParserFactory, output_parser, required_calls

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens"
DIFFERENCES = HERE / "differences"
PLUGINS = HERE.parent.parent / "plugins" / "parsers"
END_OF_STREAM = "<|eos|>"  # the recording tokenizer's end token, which some of vLLM's parsers put into the text


@cache
def declared() -> dict[tuple[str, str], ToolParser | ReasoningParser]:
    """Records of all parser packages in the tree by kind and name."""
    records: dict[tuple[str, str], ToolParser | ReasoningParser] = {}
    for source in sorted(PLUGINS.glob("*/src")):
        if str(source) not in sys.path:
            sys.path.insert(0, str(source))
        for package in sorted(path.parent.name for path in source.glob("*/plugin.py")):
            module = importlib.import_module(f"{package}.plugin")
            for kind, hook in (("tool", "modelhost_tool_parsers"), ("reasoning", "modelhost_reasoning_parsers")):
                for record in getattr(module, hook, tuple)():
                    records[kind, record.id] = record
    return records


@cache
def parser_format(kind: str, name: str) -> ParserFactory:
    """The format that a record names."""
    module, _, attribute = declared()[kind, name].target.partition(":")
    found: ParserFactory = getattr(importlib.import_module(module), attribute)
    return found


class GoldenVocabulary:
    """The markers that were single tokens when the cases were recorded."""

    def __init__(self, markers: list[str]) -> None:
        self._ids = {marker: 1000 + index for index, marker in enumerate(markers)}

    def token_id(self, text: str) -> int | None:
        return self._ids.get(text)


@dataclass(frozen=True)
class Case:
    """One recorded output."""

    kind: str
    file: str
    head: dict[str, Any]
    data: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def text(self) -> str:
        return self.data.get("text") or ""

    @property
    def chunkings(self) -> Iterator[list[str]]:
        for stream in self.data["streams"]:
            yield stream["chunks"]

    @property
    def tool_parser(self) -> str | None:
        if self.kind == "reasoning":
            return None
        return str(self.head["parser"]).partition(".")[0].removeprefix("tool_choice.")

    @property
    def reasoning_parser(self) -> str | None:
        name = self.head["parser"] if self.kind == "reasoning" else self.head.get("reasoning_parser")
        return None if name is None else str(name)

    @property
    def is_declared(self) -> bool:
        wanted = (("tool", self.tool_parser), ("reasoning", self.reasoning_parser))
        return all(name is None or (kind, name) in declared() for kind, name in wanted)

    def parser(self) -> Parser:
        """A parser set up for this request."""
        request = self.data.get("request", {})
        options = {key: request[key] for key in ("reasoning_effort",) if key in request}
        options |= self.data.get("chat_template_kwargs", {})
        context = ParserContext(
            tools=self.head.get("request_tools", ()),
            prompt=self.head.get("prompt", "") + self.data.get("prompt_suffix", ""),
            template_options=options,
            vocabulary=GoldenVocabulary(self.head.get("single_token_markers", [])),
            response_template=self.head.get("response_template"),
        )
        reasoning = self.reasoning_parser
        return output_parser(
            context,
            reasoning=parser_format("reasoning", reasoning) if reasoning else None,
            tools=self._tools(),
            include_reasoning=request.get("include_reasoning", True),
        )

    def _tools(self) -> ParserFactory | None:
        choice = self.data.get("tool_choice", "auto")
        if self.tool_parser is None or choice == "none":
            return None
        if self.head.get("supports_required_and_named") and self.file.startswith("tool_choice."):
            if choice == "required":
                return required_calls
            if isinstance(choice, dict):
                return NamedCall(choice["function"]["name"])
        return parser_format("tool", self.tool_parser)


@cache
def cases() -> tuple[Case, ...]:
    """All recorded cases of declared parsers."""
    found = []
    for path in sorted(GOLDENS.glob("*/*.json")):
        head = json.loads(path.read_text(encoding="utf-8"))
        found += [Case(path.parent.name, path.stem, head, data) for data in head.pop("cases")]
    return tuple(case for case in found if case.is_declared)


def comparable(result: Parsed) -> dict[str, Any]:
    """A result in the form in which results are compared: arguments by value where they are JSON."""
    calls = [[call.name, _value(call.arguments)] for call in result.calls]
    return {"reasoning": result.reasoning, "content": result.content, "calls": calls}


def recorded(result: dict[str, Any], *, streamed: bool = False) -> dict[str, Any]:
    """vLLM's result in the same form."""
    calls = [[call["name"], _value(call["arguments"])] for call in result.get("tool_calls", [])]
    texts = {key: result.get(key) or "" for key in ("reasoning", "content")}
    if streamed:
        texts = {key: text.removesuffix(END_OF_STREAM) for key, text in texts.items()}
    return {**texts, "calls": calls}


@dataclass(frozen=True)
class Difference:
    """Why a case's result is not vLLM's, and the result."""

    reason: str
    result: dict[str, Any] | None  # None: what vLLM streams

    def expected(self, case: Case) -> dict[str, Any]:
        if self.result is None:
            return recorded(case.data["expect_stream"], streamed=True)
        calls = [[name, _value(arguments)] for name, arguments in self.result.get("calls", [])]
        return {key: self.result.get(key, "") for key in ("reasoning", "content")} | {"calls": calls}


@cache
def differences(kind: str, file: str) -> dict[str, Difference]:
    """The listed differences of a golden file by case."""
    path = DIFFERENCES / kind / f"{file}.toml"
    if not path.is_file():
        return {}
    listed: dict[str, Difference] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["difference"]:
        named = dict.fromkeys(entry.get("as_streamed", [])) | entry.get("results", {})
        for name, result in named.items():
            if name in listed:
                raise ValueError(f"{path}: case {name} is listed twice")
            listed[name] = Difference(entry["reason"], result)
    return listed


def expected(case: Case) -> dict[str, Any]:
    """The result that a case must have."""
    listed = differences(case.kind, case.file).get(case.name)
    return listed.expected(case) if listed else recorded(case.data["expect"])


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"not JSON": arguments}
