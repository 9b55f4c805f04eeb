"""The forms in which a prompt can be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from modelhost.api import RequestError
from modelhost.text.tokenizer import Tokenizer

PromptInput = str | Sequence[int] | Mapping[str, Any]
"""Text, token ids, or ``{"prompt": text}`` or ``{"prompt_token_ids": ids}``."""

Message = Mapping[str, Any]
"""One message of a conversation, with ``role`` and ``content``."""


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt as tokens, and its text if it was text."""

    token_ids: list[int]
    text: str | None


def tokenize_prompt(prompt: PromptInput, tokenizer: Tokenizer | None) -> TokenizedPrompt:
    """Bring a prompt of any form to tokens. Text gets the tokenizer's special tokens.

    Raises:
        RequestError: the form is not one of :data:`PromptInput`, or text was given and there is no tokenizer.
    """
    if isinstance(prompt, Mapping):
        if "prompt_token_ids" in prompt:
            return tokenize_prompt(prompt["prompt_token_ids"], tokenizer)
        if "prompt" in prompt:
            return tokenize_prompt(prompt["prompt"], tokenizer)
        raise RequestError(
            f"a prompt given as a mapping needs 'prompt' or 'prompt_token_ids', got keys {sorted(prompt)}"
        )
    if isinstance(prompt, str):
        if tokenizer is None:
            raise RequestError("the model has no tokenizer; give the prompt as token ids")
        return TokenizedPrompt(tokenizer.encode(prompt), prompt)
    if _is_token_ids(prompt):
        return TokenizedPrompt([int(token) for token in prompt], None)
    raise RequestError(f"a prompt must be text, a list of token ids or a mapping, got {type(prompt).__name__}")


def _is_token_ids(value: object) -> TypeGuard[Sequence[int]]:
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        return hasattr(value, "tolist") and _is_token_ids(value.tolist())
    return all(hasattr(item, "__index__") and not isinstance(item, bool) for item in value)


def as_prompts(prompts: PromptInput | Sequence[PromptInput]) -> tuple[list[PromptInput], bool]:
    """A list of prompts, and whether a single one was given."""
    if isinstance(prompts, str | Mapping) or (_is_token_ids(prompts) and len(prompts) > 0):
        return [prompts], True
    return list(prompts), False  # type: ignore[arg-type]
