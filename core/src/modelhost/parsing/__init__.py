"""Incremental parsers of generated text: a few engines from which tool-call and reasoning formats are declared."""

from __future__ import annotations

from .adjustment import Adjusted, Adjustment, AdjustsRequests, ToolChoice, adjust_request, written_as
from .blocks import Block, Blocks
from .call_syntax import CallGrammar, CallSyntax, CallTag
from .chain import Chain, HideReasoning, PlainText, output_parser
from .context import ParserContext, ParserFactory, Vocabulary
from .engine import Engine, MarkedText, ReasoningEngine, ToolEngine
from .events import (
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
from .forced_calls import NamedCall, required_calls
from .harmony import Harmony
from .header_calls import HeaderCalls
from .json_calls import JsonCalls
from .json_scanner import JsonScanner, complete_json, read_partial_json
from .markers import Markers
from .python_literal import PythonLiteral
from .pythonic_calls import PythonicCalls
from .reasoning_tags import ReasoningTags, Switch
from .tagged_calls import Tag, TaggedCalls
from .typed_values import json_string, schema_types, to_json, typed_value

__all__ = [
    "Adjusted",
    "Adjustment",
    "AdjustsRequests",
    "Block",
    "Blocks",
    "Call",
    "CallArguments",
    "CallEnd",
    "CallGrammar",
    "CallStart",
    "CallSyntax",
    "CallTag",
    "Chain",
    "Content",
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
