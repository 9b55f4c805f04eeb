"""Every recorded case of every declared parser: in one piece, cut at every character, and as it was streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from golden_cases import (
    DIFFERENCES,
    GOLDENS,
    Case,
    GoldenVocabulary,
    cases,
    comparable,
    declared,
    differences,
    expected,
    recorded,
)

from modelhost.api.parsing import Parsed, collect, parse

FILES = sorted({(case.kind, case.file) for case in cases()})
GATED = {
    "tool": {
        "apertus",
        "beam",
        "cohere_command3",
        "cohere_command4",
        "deepseek_v3",
        "deepseek_v31",
        "deepseek_v32",
        "deepseek_v4",
        "deepseek_v41",
        "dots",
        "ernie45",
        "functiongemma",
        "gemma4",
        "gigachat3",
        "glm45",
        "glm47",
        "granite",
        "granite-20b-fc",
        "granite4",
        "hermes",
        "hf",
        "hunyuan_a13b",
        "hy_v3",
        "hy_v4",
        "inkling",
        "internlm",
        "jamba",
        "k2_horizon",
        "kimi_k2",
        "kimi_k3",
        "lfm2",
        "ling3",
        "llama3_json",
        "llama4_json",
        "llama4_pythonic",
        "longcat",
        "mimo",
        "minicpm5",
        "minimax_m2",
        "minimax_m3",
        "mistral",
        "olmo3",
        "openai",
        "phi4_mini_json",
        "plamo3",
        "poolside_v1",
        "pythonic",
        "qwen3_coder",
        "qwen3_xml",
        "seed_oss",
        "step3",
        "step3p5",
        "xlam",
    },
    "reasoning": {
        "beam",
        "cohere_command3",
        "cohere_command4",
        "deepseek_r1",
        "deepseek_v3",
        "deepseek_v4",
        "deepseek_v41",
        "ernie45",
        "gemma4",
        "glm45",
        "glm47",
        "granite",
        "granite_thinking_parser",
        "hf",
        "holo2",
        "hunyuan_a13b",
        "hy_v3",
        "hy_v4",
        "inkling",
        "k2_horizon",
        "kimi_k2",
        "kimi_k3",
        "ling3",
        "mimo",
        "minimax_m2",
        "minimax_m2_append_think",
        "minimax_m3",
        "mistral",
        "nemotron_v3",
        "olmo3",
        "openai_gptoss",
        "plamo3",
        "poolside_v1",
        "qwen3",
        "seed_oss",
        "step3",
        "step3p5",
    },
}
"""The names of all parsers that cases were recorded of."""


def fed(case: Case, pieces: Iterable[str]) -> Parsed:
    """The result of pieces, each with the ids of the marker tokens in it."""
    parser = case.parser()
    markers = case.head.get("single_token_markers", [])
    vocabulary = GoldenVocabulary(markers)
    events = []
    for piece in pieces:
        places = sorted((piece.find(marker), marker) for marker in markers if marker in piece)
        ids = [vocabulary.token_id(marker) for _, marker in places]
        events += parser.feed(piece, [id for id in ids if id is not None])
    return collect([*events, *parser.finish()])


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.kind}-{case.file}-{case.name}") for case in cases()])
def test_recorded_case(case: Case) -> None:
    text = case.text
    result = parse(case.parser(), text)
    assert comparable(result) == expected(case)
    for place in range(1, len(text)):
        assert fed(case, [text[:place], text[place:]]) == result, f"cut at {place}: {text[:place]!r}"
    assert fed(case, text) == result
    for chunks in case.chunkings:
        assert fed(case, chunks) == result, f"streamed as {chunks}"


@pytest.mark.parametrize(("kind", "file"), FILES)
def test_listed_differences_are_real(kind: str, file: str) -> None:
    known = {case.name: case for case in cases() if (case.kind, case.file) == (kind, file)}
    for name, difference in differences(kind, file).items():
        assert name in known, f"{kind}/{file}: there is no case {name}"
        assert difference.reason.strip(), f"{kind}/{file}: {name} has no reason"
        vllm = recorded(known[name].data["expect"])
        assert difference.expected(known[name]) != vllm, f"{kind}/{file}: {name} no longer differs from vLLM"


def test_difference_tables_belong_to_goldens() -> None:
    tables = {(path.parent.name, path.stem) for path in DIFFERENCES.glob("*/*.toml")}
    assert tables <= set(FILES)


@pytest.mark.parametrize("kind", GATED)
def test_every_recorded_parser_is_declared(kind: str) -> None:
    heads = [json.loads(path.read_text(encoding="utf-8")) for path in GOLDENS.glob(f"{kind}/*.json")]
    assert {head["parser"] for head in heads} == GATED[kind]
    assert GATED[kind] <= {name for declared_kind, name in declared() if declared_kind == kind}
