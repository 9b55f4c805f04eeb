"""A model with its tokenizer and engine: what :class:`LLM` and :class:`AsyncLLM` share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from modelhost.api import ReasoningParser, RequestError, TokenizerError, ToolParser
from modelhost.api.system import trim_heap
from modelhost.hub import resolve
from modelhost.loading import ModelSource, PreparedModel, create_speculator, open_model, prepare_model
from modelhost.plugins import ModelTraits, ParserSelection, Registry, boot, select_parser
from modelhost.text.template_choice import choose_template
from modelhost.text.tokenizer import Tokenizer
from modelhost.weights.checkpoint import Checkpoint

from .chat import ChatOptions, GenerationRequest, chat_request, with_argument_objects
from .config import EngineConfig
from .engine import Engine
from .garbage import collection_paused
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
        path = resolve(model)
        with collection_paused():
            self.prepared: PreparedModel = prepare_model(open_model(path, self.registry), self.registry, config)
            self._speculator = create_speculator(self.prepared, self.registry, config)
            self.tokenizer = open_tokenizer(self.prepared.source.checkpoint, tokenizer)
        self.chat_template = chat_template
        self._ids = itertools.count()
        if config.tool_call_parser != "auto":
            self.tool_parser  # noqa: B018 - a name that cannot be used is an error now, not at the first chat
        if config.reasoning_parser != "auto":
            self.reasoning_parser  # noqa: B018

    @cached_property
    def engine(self) -> Engine:
        """The engine; the first access loads the weights."""
        with collection_paused():
            executable = self.prepared.compile()
        return Engine(
            executable,
            self.prepared.memory,
            self.config,
            vocab_size=self.prepared.source.config.vocab_size,
            eos_token_ids=self.tokenizer.eos_token_ids if self.tokenizer else (),
            tokenizer=self.tokenizer,
            length_dependent="lengths" in self.prepared.graph.inputs,
            speculator=self._speculator,
        )

    @cached_property
    def tool_parser(self) -> ParserSelection[ToolParser]:
        """What finds calls of tools in answers; errors as :func:`modelhost.plugins.select_parser`."""
        traits = model_traits(self.prepared.source, self.tokenizer, self.chat_template, tools=True)
        return select_parser(self.registry, ToolParser, self.config.tool_call_parser, traits)

    @cached_property
    def reasoning_parser(self) -> ParserSelection[ReasoningParser]:
        """What separates reasoning from answers; errors as :func:`modelhost.plugins.select_parser`."""
        traits = model_traits(self.prepared.source, self.tokenizer, self.chat_template)
        return select_parser(self.registry, ReasoningParser, self.config.reasoning_parser, traits)

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
            with_argument_objects(messages),
            tools=list(tools) if tools is not None else None,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            chat_template=chat_template or self.chat_template,
            **dict(chat_template_kwargs or {}),
        )
        return TokenizedPrompt(self.tokenizer.encode(text, add_special_tokens=False), text)

    def chat(
        self,
        messages: Sequence[Message],
        params: SamplingParams | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        **options: Any,
    ) -> GenerationRequest:
        """The request for a conversation.

        Args:
            params: how to sample; the checkpoint's defaults when ``None``.
            options: fields of :class:`~modelhost.engine.chat.ChatOptions`.

        Raises:
            TokenizerError, RequestError: as :meth:`render`; also when ``options`` are malformed.
            UnsupportedError: calls are wanted and no parser finds them, or the tool choice needs a grammar.
            PluginError: several parsers fit the model, or one is broken.
        """
        chat = ChatOptions.parse(options).checked()
        prompt = self.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tools=chat.tools or None,
            chat_template=chat_template,
            chat_template_kwargs=chat.template_options,
        )
        return chat_request(
            prompt,
            params or self.default_sampling_params(),
            chat,
            tokenizer=cast(Tokenizer, self.tokenizer),
            tools=self.tool_parser if chat.wants_calls else None,
            reasoning=self.reasoning_parser,
        )


def open_tokenizer(checkpoint: Checkpoint, other: str | None = None) -> Tokenizer | None:
    """The tokenizer of a checkpoint, if it has one, or that of the directory, file or id ``other``.

    Building one takes memory that is free again afterwards; it is given back to the system.

    Raises:
        TokenizerError: it is corrupt.
    """
    try:
        return _open_tokenizer(checkpoint, other)
    finally:
        trim_heap()


def _open_tokenizer(checkpoint: Checkpoint, other: str | None) -> Tokenizer | None:
    if other is not None:
        path = resolve(other)
        if path.is_dir():
            return Tokenizer.from_directory(path)
        from modelhost.weights.encoding_table import EncodingTable
        from modelhost.weights.open import open_checkpoint

        return Tokenizer.from_gguf(open_checkpoint(path, EncodingTable(())).config)
    if checkpoint.format == "gguf":
        return Tokenizer.from_gguf(checkpoint.config)
    if not (checkpoint.path / "tokenizer.json").exists():
        return None
    return Tokenizer.from_directory(checkpoint.path)


def model_traits(
    source: ModelSource, tokenizer: Tokenizer | None, chat_template: str | None = None, *, tools: bool = False
) -> ModelTraits:
    """What the parsers of a model are chosen by.

    Args:
        chat_template: replaces the checkpoint's.
        tools: whether its chats have tools: some checkpoints have a template of its own for them.
    """
    templates = tokenizer.chat_templates if tokenizer is not None else {}
    try:
        template = choose_template(templates, chat_template, tools=tools)
    except TokenizerError:
        template = ""
    chosen = source.selection.chosen
    return ModelTraits(chosen.id, template, tokenizer, chosen.distribution)


def _check_messages(messages: Sequence[Message]) -> None:
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RequestError("messages must be a non-empty list of mappings with 'role' and 'content'")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"messages[{index}] must be a mapping with a 'role', got {message!r}")
