"""A model with its tokenizer and engine: what :class:`LLM` and :class:`AsyncLLM` share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from modelhost.api import RequestError, TokenizerError
from modelhost.hub import resolve
from modelhost.loading import PreparedModel, open_model, prepare_model
from modelhost.plugins import Registry, boot
from modelhost.text.tokenizer import Tokenizer

from .config import EngineConfig
from .engine import Engine
from .prompts import Message, PromptInput, TokenizedPrompt, tokenize_prompt
from .sampling_params import SamplingParams

_GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class ServedModel:
    """A loaded model.

    Args:
        model: a directory, a ``.gguf`` file, or a Hugging Face id.
        tokenizer: directory or ``.gguf`` file of another tokenizer than the model's own.
        chat_template: Jinja text that replaces the checkpoint's.
        registry: the plugins; those installed by default.
        config: the engine's settings.

    Raises:
        ModelHostError: any of its subclasses, with what is wrong and what to do.
    """

    def __init__(
        self,
        model: str,
        config: EngineConfig,
        *,
        tokenizer: str | None = None,
        chat_template: str | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.registry = registry if registry is not None else boot()
        self.config = config
        self.prepared: PreparedModel = prepare_model(open_model(resolve(model), self.registry), self.registry, config)
        self.tokenizer = self._open_tokenizer(tokenizer)
        self.chat_template = chat_template
        self._ids = itertools.count()

    @cached_property
    def engine(self) -> Engine:
        """The engine; the first access loads the weights."""
        return Engine(
            self.prepared.compile(),
            self.prepared.memory,
            self.config,
            vocab_size=self.prepared.source.config.vocab_size,
            eos_token_ids=self.tokenizer.eos_token_ids if self.tokenizer else (),
            tokenizer=self.tokenizer,
            length_dependent="lengths" in self.prepared.graph.inputs,
        )

    def next_id(self) -> str:
        """A request id that was not used before."""
        return f"request-{next(self._ids)}"

    def default_sampling_params(self) -> SamplingParams:
        """The checkpoint's own sampling settings, and vLLM's where it states none."""
        stated = self.prepared.source.checkpoint.generation_config
        return SamplingParams(**{k: stated[k] for k in _GENERATION_DEFAULTS if stated.get(k) is not None})

    def tokenize(self, prompt: PromptInput) -> TokenizedPrompt:
        """Tokens of a prompt of any form."""
        return tokenize_prompt(prompt, self.tokenizer)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> TokenizedPrompt:
        """A conversation through the chat template, as tokens.

        Raises:
            TokenizerError: there is no template, or it fails on these messages.
            RequestError: the messages are not a list of mappings with a role.
        """
        if self.tokenizer is None:
            raise TokenizerError("the model has no tokenizer, so it cannot chat; use generate with token ids")
        _check_messages(messages)
        text = self.tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) if tools is not None else None,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template=chat_template or self.chat_template,
            **dict(chat_template_kwargs or {}),
        )
        return TokenizedPrompt(self.tokenizer.encode(text, add_special_tokens=False), text)

    def _open_tokenizer(self, other: str | None) -> Tokenizer | None:
        if other is not None:
            path = resolve(other)
            if path.is_dir():
                return Tokenizer.from_directory(path)
            from modelhost.weights.encoding_table import EncodingTable
            from modelhost.weights.open import open_checkpoint

            return Tokenizer.from_gguf(open_checkpoint(path, EncodingTable(())).config)
        checkpoint = self.prepared.source.checkpoint
        if checkpoint.format == "gguf":
            return Tokenizer.from_gguf(checkpoint.config)
        if not (checkpoint.path / "tokenizer.json").exists():
            return None
        return Tokenizer.from_directory(checkpoint.path)


def _check_messages(messages: Sequence[Message]) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RequestError("messages must be a non-empty list of mappings with 'role' and 'content'")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"messages[{index}] must be a mapping with a 'role', got {message!r}")
