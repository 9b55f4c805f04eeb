"""What plugins of tool-call and reasoning parsers import: events, the engines and what a format is declared with."""

from __future__ import annotations

from modelhost.parsing.adjustment import (
    Adjusted,
    Adjustment,
    AdjustsRequests,
    ByRequest,
    ToolChoice,
    adjust_request,
    written_as,
)
from modelhost.parsing.blocks import Block, Blocks
from modelhost.parsing.call_syntax import ArgumentStyle, CallGrammar, CallSyntax, CallTag
from modelhost.parsing.chain import AnswerFromReasoning, Chain, HideReasoning, PlainText, output_parser
from modelhost.parsing.context import ParserContext, ParserFactory, Vocabulary
from modelhost.parsing.either_calls import EitherCalls
from modelhost.parsing.engine import Engine, MarkedText, ReasoningEngine, ToolEngine
from modelhost.parsing.events import (
    Call,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Parsed,
    Parser,
    Reasoning,
    collect,
    merge,
    parse,
)
from modelhost.parsing.forced_calls import NamedCall, required_calls
from modelhost.parsing.harmony import Harmony
from modelhost.parsing.header_calls import HeaderCalls
from modelhost.parsing.json_calls import JsonCalls
from modelhost.parsing.json_scanner import JsonScanner, complete_json, read_partial_json
from modelhost.parsing.markers import Markers
from modelhost.parsing.python_literal import PythonLiteral
from modelhost.parsing.pythonic_calls import PythonicCalls
from modelhost.parsing.reasoning_tags import ReasoningTags, Switch
from modelhost.parsing.tagged_calls import Tag, TaggedCalls
from modelhost.parsing.typed_values import json_string, schema_types, to_json, typed_value

__all__ = [
    "Adjusted",
    "Adjustment",
    "AdjustsRequests",
    "AnswerFromReasoning",
    "ArgumentStyle",
    "Block",
    "Blocks",
    "ByRequest",
    "Call",
    "CallArguments",
    "CallEnd",
    "CallGrammar",
    "CallStart",
    "CallSyntax",
    "CallTag",
    "Chain",
    "Content",
    "EitherCalls",
    "Engine",
    "Event",
    "Harmony",
    "HeaderCalls",
    "HideReasoning",
    "JsonCalls",
    "JsonScanner",
    "MarkedText",
    "Markers",
    "NamedCall",
    "Parsed",
    "Parser",
    "ParserContext",
    "ParserFactory",
    "PlainText",
    "PythonLiteral",
    "PythonicCalls",
    "Reasoning",
    "ReasoningEngine",
    "ReasoningTags",
    "Switch",
    "Tag",
    "TaggedCalls",
    "ToolChoice",
    "ToolEngine",
    "Vocabulary",
    "adjust_request",
    "collect",
    "complete_json",
    "json_string",
    "merge",
    "output_parser",
    "parse",
    "read_partial_json",
    "required_calls",
    "schema_types",
    "to_json",
    "typed_value",
    "written_as",
]
