"""The tokenizer fields of a GGUF file, checked and with the defaults that llama.cpp gives them.

Field names: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; defaults: llama.cpp `src/llama-vocab.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from modelhost.api import TokenizerError, UnsupportedError

from .end_of_generation import end_of_generation_ids
from .pre_tokenizers import PreTokenizer, pre_tokenizer_for

if TYPE_CHECKING:
    import numpy.typing as npt


class TokenType(IntEnum):
    """The values of `tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class ModelDefaults:
    """What a vocabulary of one `tokenizer.ggml.model` assumes where the file says nothing."""

    ids: Mapping[str, int]
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool = False


MODEL_DEFAULTS = {
    "gpt2": ModelDefaults({}),
    "gemma4": ModelDefaults({}, add_bos=True),
    "llama": ModelDefaults({"bos": 1, "eos": 2, "unknown": 0}, add_bos=True, add_space_prefix=True),
    "t5": ModelDefaults({"eos": 1, "unknown": 2, "padding": 0}, add_eos=True),
    "bert": ModelDefaults(
        {"bos": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103}, add_bos=True, add_eos=True
    ),
}

# The names that chat templates and Hugging Face use, by the (GGUF-spelled) name of the id field.
_SPECIAL_NAMES = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
    "seperator": "sep_token",
    "cls": "cls_token",
    "mask": "mask_token",
}


@dataclass(frozen=True)
class GGUFVocabulary:
    """A vocabulary as a GGUF file stores it; token ids are positions in `tokens`."""

    model: str
    pre_tokenizer: PreTokenizer | None
    tokens: list[str]
    types: list[int]
    scores: list[float] | None
    merges: list[str] | None
    ids: Mapping[str, int]
    eos_token_ids: tuple[int, ...]
    special_ids: frozenset[int]
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    metadata: Mapping[str, Any]

    def with_type(self, *types: TokenType) -> list[int]:
        """The ids whose token type is one of `types`, ascending."""
        ids: list[int] = np.flatnonzero(np.isin(self._types, [kind.value for kind in types])).tolist()
        return ids

    @cached_property
    def _types(self) -> npt.NDArray[np.int64]:
        return np.array(self.types, np.int64)

    @property
    def special_tokens(self) -> dict[str, str]:
        """`bos_token`, `eos_token`, ... to their texts, for those that the vocabulary has."""
        return {name: self.tokens[self.ids[key]] for key, name in _SPECIAL_NAMES.items() if key in self.ids}

    @property
    def chat_templates(self) -> dict[str, str]:
        """Chat templates by name; the unnamed one is `default`."""
        field = "tokenizer.chat_template"
        names = [key for key in self.metadata if key == field or key.startswith(field + ".")]
        texts = {key[len(field) + 1 :] or "default": self.metadata[key] for key in names}
        return {name: text for name, text in texts.items() if isinstance(text, str)}


def read_vocabulary(metadata: Mapping[str, Any], *, pre_tokenizer: str | None = None) -> GGUFVocabulary:
    """Read the `tokenizer.*` fields of a GGUF file's metadata.

    Args:
        metadata: field name to value; arrays may be lists or NumPy arrays.
        pre_tokenizer: used in place of the file's `tokenizer.ggml.pre`.

    Raises:
        TokenizerError: a field is missing, of the wrong type or length, or out of range.
        UnsupportedError: a kind of vocabulary that modelhost does not build.
    """
    model = metadata.get("tokenizer.ggml.model")
    if not isinstance(model, str) or "tokenizer.ggml.tokens" not in metadata:
        missing = "tokenizer.ggml.tokens" if isinstance(model, str) else "tokenizer.ggml.model"
        raise TokenizerError(
            f"GGUF field {missing!r} is missing: this file holds no tokenizer. "
            "Use a file that holds one, or name a directory with a tokenizer.json."
        )
    if model not in MODEL_DEFAULTS:
        raise UnsupportedError(
            f"GGUF field 'tokenizer.ggml.model': vocabularies of kind {model!r} are not supported; "
            f"supported are {', '.join(MODEL_DEFAULTS)}."
        )
    defaults = MODEL_DEFAULTS[model]
    tokens = _tokens(metadata)
    types = [TokenType.NORMAL.value] * len(tokens)
    if "tokenizer.ggml.token_type" in metadata:
        types = _array(metadata, "tokenizer.ggml.token_type", len(tokens))
    pre = None
    if model == "gpt2":
        pre = pre_tokenizer_for(pre_tokenizer or metadata.get("tokenizer.ggml.pre"))
    elif model == "gemma4":
        pre = pre_tokenizer_for("gemma4")
    named = _named_ids(metadata)
    if model == "bert" and "cls" in named:
        named.setdefault("bos", named["cls"])
    ids = {**defaults.ids, **named}
    ids = {name: index for name, index in ids.items() if _in_range(name, index, tokens, metadata)}
    special = {TokenType.CONTROL.value, TokenType.UNKNOWN.value}
    control = [index for index, kind in enumerate(types) if kind in special]
    token_ids = dict(zip(tokens, range(len(tokens)), strict=True))
    endings = end_of_generation_ids(metadata, token_ids, control, ids.get("eos"))
    return GGUFVocabulary(
        model=model,
        pre_tokenizer=pre,
        tokens=tokens,
        types=types,
        scores=_array(metadata, "tokenizer.ggml.scores", len(tokens)) if "tokenizer.ggml.scores" in metadata else None,
        merges=_array(metadata, "tokenizer.ggml.merges") if "tokenizer.ggml.merges" in metadata else None,
        ids=ids,
        eos_token_ids=endings,
        special_ids=frozenset(control) | frozenset(endings),
        add_bos=_flag(metadata, "add_bos_token", defaults.add_bos or bool(pre and pre.add_bos)),
        add_eos=_flag(metadata, "add_eos_token", defaults.add_eos),
        add_space_prefix=_flag(metadata, "add_space_prefix", defaults.add_space_prefix),
        metadata=metadata,
    )


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    tokens = _array(metadata, "tokenizer.ggml.tokens")
    if "" in tokens:
        tokens = [text or f"[EMPTY_{index}]" for index, text in enumerate(tokens)]
    if len(set(tokens)) == len(tokens):
        return tokens
    seen: dict[str, int] = {}
    for index, text in enumerate(tokens):
        if text in seen:
            raise TokenizerError(f"GGUF field 'tokenizer.ggml.tokens': {text!r} has both ids {seen[text]} and {index}.")
        seen[text] = index
    return tokens


def _array(metadata: Mapping[str, Any], field: str, length: int | None = None) -> list[Any]:
    value: Any = metadata[field]
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise TokenizerError(f"GGUF field {field!r}: an array is expected, not {type(value).__name__}.")
    if length is not None and len(value) < length:
        raise TokenizerError(f"GGUF field {field!r} has {len(value)} values for {length} tokens.")
    return value if isinstance(value, list) and length in (None, len(value)) else list(value[:length])


def _named_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    fields = {name: metadata.get(f"tokenizer.ggml.{name}_token_id") for name in _SPECIAL_NAMES}
    return {name: int(value) for name, value in fields.items() if value is not None}


def _in_range(name: str, index: int, tokens: list[str], metadata: Mapping[str, Any]) -> bool:
    field = f"tokenizer.ggml.{name}_token_id"
    if 0 <= index < len(tokens):
        return True
    if field in metadata:
        raise TokenizerError(f"GGUF field {field!r} is {index}, but the vocabulary has {len(tokens)} tokens.")
    return False


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}")
    return default if value is None else bool(value)
