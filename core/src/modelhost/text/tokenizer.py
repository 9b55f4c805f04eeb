"""The tokenizer of a checkpoint: text to token ids and back, streaming, and its chat template."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from modelhost.api import RequestError, TokenizerError

from .decoder_stages import Stage, clean_up, clean_up_stages, decoder_stages, token_bytes
from .detokenizer import TextStream
from .template_choice import choose_template

if TYPE_CHECKING:
    import tokenizers

    from .chat_template import ChatTemplate


class Tokenizer:
    """A `tokenizers.Tokenizer` with what a checkpoint says about it. Safe to share between threads."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_ids: Iterable[int] = (),
        silent_ids: Iterable[int] = (),
        eos_token_ids: Sequence[int] = (),
        special_tokens: Mapping[str, str] | None = None,
        chat_templates: Mapping[str, str] | None = None,
        response_template: Mapping[str, Any] | None = None,
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        """
        Args:
            backend: the tokenizer proper, with its added tokens and post-processor.
            special_ids: control tokens; `skip_special_tokens` leaves them out of decoded text.
            silent_ids: places in the vocabulary that hold no token: they decode to nothing.
            eos_token_ids: the tokens that end generation, the tokenizer's own end token first.
            special_tokens: `bos_token`, `eos_token`, ... to text, as chat templates name them.
            chat_templates: Jinja source by name; the unnamed one is `default`.
            response_template: how answers are read, as transformers describes it (docs/chat_response_parsing.md).
            clean_up_tokenization_spaces: remove spaces before punctuation in decoded text.
        """
        self.backend = backend
        self.special_ids = frozenset(special_ids)
        self.eos_token_ids = tuple(eos_token_ids)
        self.special_tokens = dict(special_tokens or {})
        self.chat_templates = dict(chat_templates or {})
        self.response_template = response_template
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        self._silent_ids = frozenset(silent_ids)
        self._hidden_ids = self.special_ids | self._silent_ids

    @classmethod
    def from_directory(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer of a Hugging Face checkpoint directory.

        Reads tokenizer.json and, where present, tokenizer_config.json, special_tokens_map.json, generation_config.json
        (end tokens), config.json (end tokens, without the former) and the chat template files.

        Raises:
            TokenizerError: a file is missing or corrupt; the text names it.
        """
        from .directory import load_directory

        return load_directory(path)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], *, pre_tokenizer: str | None = None) -> Tokenizer:
        """The tokenizer that a GGUF file's metadata describes.

        Args:
            metadata: field name to value; arrays may be lists or NumPy arrays.
            pre_tokenizer: used in place of the file's `tokenizer.ggml.pre`.

        Token ids follow llama.cpp, which applies no Unicode normalisation to byte-level vocabularies (the original
        Qwen tokenizers apply NFC).

        Raises:
            TokenizerError: a field is missing or inconsistent; the text names it.
            UnsupportedError: a kind of vocabulary that modelhost does not build.
        """
        from .gguf_models import build_tokenizer
        from .gguf_vocabulary import TokenType, read_vocabulary

        vocabulary = read_vocabulary(metadata, pre_tokenizer=pre_tokenizer)
        return cls(
            build_tokenizer(vocabulary),
            special_ids=vocabulary.special_ids,
            silent_ids=vocabulary.with_type(TokenType.UNUSED),
            eos_token_ids=vocabulary.eos_token_ids,
            special_tokens=vocabulary.special_tokens,
            chat_templates=vocabulary.chat_templates,
        )

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`. Special tokens written in the text become their ids.

        Args:
            add_special_tokens: add the begin and end tokens that the checkpoint asks for. Leave it out for text from a
                chat template, which writes them itself.

        Raises:
            RequestError: the text holds a lone surrogate, which no encoding can represent.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                f"The text holds a lone surrogate (U+{ord(text[error.start]):04X}) at position {error.start}; "
                "it is not valid Unicode. Replace or remove it."
            ) from None
        ids: list[int] = self.backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `ids`. Bytes that are not UTF-8 become U+FFFD.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        hidden = self._hidden_ids if skip_special_tokens else self._silent_ids
        visible = [index for index in map(self._checked, ids) if index not in hidden]
        text: str = self.backend.decode(visible, skip_special_tokens=False)
        return clean_up(text) if self.clean_up_tokenization_spaces else text

    def stream(self, prompt_ids: Sequence[int] = (), *, skip_special_tokens: bool = True) -> TextStream:
        """Incremental detokenisation of what follows `prompt_ids`; see TextStream.

        An id beyond the vocabulary stands for no text: models have more logits than their tokenizers have tokens.

        Raises:
            UnsupportedError: the tokenizer's decoder cannot work token by token.
        """
        hidden = self._hidden_ids if skip_special_tokens else self._silent_ids

        def token(index: int) -> str | None:
            return None if index in hidden else self._token(index)

        return TextStream(token, self._stages(), prompt_ids)

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest token id."""
        size: int = self.backend.get_vocab_size(with_added_tokens=True)
        size = max([size, *(index + 1 for index in self.backend.get_added_tokens_decoder())])
        while self._token(size) is not None:
            size += 1
        return size

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes that a token adds to the output in the middle of a text; for a special token, those of its name.

        None for an id that is outside the vocabulary or holds no token.
        """
        if not 0 <= token_id < self.vocab_size or token_id in self._silent_ids:
            return None
        text = self._token(token_id)
        return None if text is None else token_bytes(text, self._decoder)

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled `text` in the vocabulary; None if there is none."""
        index: int | None = self.backend.token_to_id(text)
        return index

    @property
    def bos_token_id(self) -> int | None:
        """The id of the begin token; None if the checkpoint names none."""
        return self.token_id(self.special_tokens["bos_token"]) if "bos_token" in self.special_tokens else None

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template that has no name, None if there is none."""
        return self.chat_templates.get("default")

    def apply_chat_template(
        self,
        messages: Sequence[Any],
        *,
        chat_template: str | None = None,
        tools: Sequence[Any] | None = None,
        **options: Any,
    ) -> str:
        """The prompt for a conversation; see ChatTemplate.render for `options`. Encode it without special tokens.

        Args:
            chat_template: the name of one of the checkpoint's templates, or Jinja source.
            tools: JSON-schema descriptions of functions. The template named `tool_use`, if any, is then the default.

        Raises:
            TokenizerError: there is no template, or it fails on this conversation.
        """
        template = self.find_chat_template(chat_template, tools=tools is not None)
        return template.render(messages, tools=tools, **options)

    def find_chat_template(self, chat_template: str | None = None, *, tools: bool = False) -> ChatTemplate:
        """The template of that name or source; by default the checkpoint's own. Raises TokenizerError without one."""
        from .chat_template import ChatTemplate

        return ChatTemplate(choose_template(self.chat_templates, chat_template, tools=tools), self.special_tokens)

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise TokenizerError(
                f"Token id {token_id} is outside the vocabulary of {self.vocab_size} tokens "
                f"(0 to {self.vocab_size - 1})."
            )
        return int(token_id)

    def _token(self, token_id: int) -> str | None:
        text: str | None = self.backend.id_to_token(token_id)
        return text

    @cached_property
    def _decoder(self) -> Mapping[str, Any] | None:
        decoder = self.backend.decoder
        specification: Mapping[str, Any] | None = json.loads(decoder.__getstate__()) if decoder else None
        return specification

    def _stages(self) -> list[Stage]:
        stages = decoder_stages(self._decoder)
        return stages + clean_up_stages() if self.clean_up_tokenization_spaces else stages
