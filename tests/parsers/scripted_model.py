"""A tiny model that says what a test wants it to say, with a tokenizer that has the markers of Qwen's formats."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parser_registry import registry_with_parsers

from modelhost import LLM
from modelhost.loading import PreparedModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from tiny_model import SPECIAL_TOKENS, VOCAB_SIZE, write_tiny_model

MARKERS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
TEMPLATE = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}"
    '<tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call>{% endif %}'
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments.city }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}"
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
TIME = {"type": "function", "function": {"name": "get_time"}}


class ScriptedExecutable:
    """Gives the largest logit to the next token of a script, then to the end token, whatever it is asked.

    Attributes:
        script: the tokens of the answer to every prompt; prompts that run at one time must be of one length.
    """

    def __init__(self, vocab_size: int, end: int) -> None:
        self.script: list[int] = []
        self._vocab_size = vocab_size
        self._end = end
        self._prompt = 0

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        starts, contexts = inputs["sequence_starts"], inputs["context_lengths"]
        for sequence, context in enumerate(contexts.tolist()):
            if inputs["positions"][starts[sequence]] == 0:
                self._prompt = context
        logits = np.zeros((len(inputs["logit_rows"]), self._vocab_size), np.float32)
        for row, position in enumerate(inputs["positions"][inputs["logit_rows"]].tolist()):
            place = position + 1 - self._prompt
            logits[row, self.script[place] if 0 <= place < len(self.script) else self._end] = 1.0
        return {"logits": logits}


class ScriptedLLM(LLM):
    """An `LLM` over a `ScriptedExecutable`."""

    def says(self, text: str) -> ScriptedLLM:
        """Let every answer be ``text``, token by token; markers are one token each."""
        self.executable.script = self.model.tokenizer.encode(text, add_special_tokens=False)
        return self

    @property
    def executable(self) -> ScriptedExecutable:
        self.model.engine  # noqa: B018 - makes the executable
        return _EXECUTABLES[id(self.model.prepared)]


_EXECUTABLES: dict[int, ScriptedExecutable] = {}


def write_checkpoint(directory: Path, *, template: str = TEMPLATE, **changes: Any) -> Path:
    """The checkpoint, with markers in its tokenizer and the chat template of a model that calls and reasons."""
    from tokenizers import AddedToken, Tokenizer

    write_tiny_model(directory, vocab_size=VOCAB_SIZE + len(MARKERS), max_position_embeddings=4096, **changes)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (*SPECIAL_TOKENS, *MARKERS)])
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


def scripted_llm(monkeypatch: pytest.MonkeyPatch, model: Path, **settings: Any) -> ScriptedLLM:
    """An LLM of all parsers in the tree whose answers are scripted."""

    def compile_scripted(prepared: PreparedModel) -> ScriptedExecutable:
        executable = ScriptedExecutable(prepared.source.config.vocab_size, 257)
        return _EXECUTABLES.setdefault(id(prepared), executable)

    monkeypatch.setattr(PreparedModel, "compile", compile_scripted)
    settings = {"backend": "reference", "enable_prefix_caching": False, "reasoning_parser": "qwen3", **settings}
    return ScriptedLLM(str(model), registry=registry_with_parsers(), **settings)
