"""Reading the tokenizer of a Hugging Face checkpoint directory."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, models

from modelhost.api import TokenizerError

from .post_processor import begin_and_end
from .tokenizer import Tokenizer

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def load_directory(path: str | PathLike[str]) -> Tokenizer:
    """See Tokenizer.from_directory."""
    folder = Path(path)
    backend = _load_backend(folder)
    config = _read_json(folder / "tokenizer_config.json")
    config = {**_read_json(folder / "special_tokens_map.json"), **config}
    _add_configured_tokens(backend, config, folder)
    named = {name: text for name in _NAMED if (text := _text(config.get(name))) is not None}
    _apply_begin_and_end_flags(backend, config, named)
    # As in transformers, spaces are never cleaned up after a BPE model, whose spaces are exact.
    clean_up = bool(config.get("clean_up_tokenization_spaces")) and not isinstance(backend.model, models.BPE)
    return Tokenizer(
        backend,
        special_ids=_special_ids(backend, config, named),
        eos_token_ids=_eos_token_ids(backend, named, folder),
        special_tokens=named,
        chat_templates=_chat_templates(config, folder),
        response_template=_response_template(config, folder),
        clean_up_tokenization_spaces=clean_up,
    )


def _load_backend(folder: Path) -> tokenizers.Tokenizer:
    file = folder / "tokenizer.json"
    try:
        source = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TokenizerError(
            f"{file} does not exist. modelhost reads tokenizer.json; save the tokenizer in that form "
            "(transformers: AutoTokenizer.from_pretrained(...).save_pretrained(DIRECTORY)) or use a GGUF file."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{file} cannot be read: {error}.") from error
    try:
        backend = tokenizers.Tokenizer.from_str(source)
    except Exception as error:
        raise TokenizerError(f"{file} is not a valid tokenizer: {error}. Fetch the file again.") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _read_json(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{file} is not valid JSON: {error}. Fetch the file again.") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{file} holds a {type(value).__name__} where an object is expected.")
    return value


def _text(token: Any) -> str | None:
    """The text of a token that is given as a string or as an object with a `content`."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _add_configured_tokens(backend: tokenizers.Tokenizer, config: dict[str, Any], folder: Path) -> None:
    """Add the tokens that only tokenizer_config.json lists."""
    present = backend.get_added_tokens_decoder()
    for index, entry in sorted((int(index), entry) for index, entry in config.get("added_tokens_decoder", {}).items()):
        if index in present:
            continue
        flags = {key: bool(entry.get(key)) for key in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        backend.add_tokens([AddedToken(entry["content"], **flags)])
        if backend.token_to_id(entry["content"]) != index:
            raise TokenizerError(
                f"{folder / 'tokenizer_config.json'}, added_tokens_decoder: {entry['content']!r} has id {index} there "
                f"but {backend.token_to_id(entry['content'])} after tokenizer.json. The two files do not match."
            )


def _special_ids(backend: tokenizers.Tokenizer, config: dict[str, Any], named: dict[str, str]) -> set[int]:
    special = {index for index, token in backend.get_added_tokens_decoder().items() if token.special}
    extra = config.get("additional_special_tokens") or config.get("extra_special_tokens") or []
    extra = list(extra.values()) if isinstance(extra, dict) else extra
    for text in (*named.values(), *map(_text, extra)):
        index = backend.token_to_id(text) if text is not None else None
        if text is None or index is None:
            continue
        if index not in special:
            backend.add_special_tokens([AddedToken(text, normalized=False, special=True)])
            special.add(index)
    return special


def _apply_begin_and_end_flags(backend: tokenizers.Tokenizer, config: dict[str, Any], named: dict[str, str]) -> None:
    """Make the tokenizer obey `add_bos_token` and `add_eos_token` where they are given."""
    current = backend.encode("").ids
    changed = False
    sides: list[list[tuple[str, int]]] = []
    for flag, name, present in (
        ("add_bos_token", "bos_token", current[:1]),
        ("add_eos_token", "eos_token", current[-1:]),
    ):
        text = named.get(name)
        index = backend.token_to_id(text) if text is not None else None
        pair = [(text, index)] if text is not None and index is not None else []
        added = index in present
        wanted = bool(pair) and (config[flag] if isinstance(config.get(flag), bool) else added)
        changed = changed or wanted != added
        sides.append(pair if wanted else [])
    if changed:
        backend.post_processor = begin_and_end(*sides)


def _eos_token_ids(backend: tokenizers.Tokenizer, named: dict[str, str], folder: Path) -> tuple[int, ...]:
    own = backend.token_to_id(named["eos_token"]) if "eos_token" in named else None
    generation = folder / "generation_config.json"
    file = generation if generation.exists() else folder / "config.json"
    listed = _read_json(file).get("eos_token_id")
    ids = listed if isinstance(listed, list) else [listed]
    if any(value is not None and not isinstance(value, int) for value in ids):
        raise TokenizerError(f"{file}, eos_token_id: {listed!r} is neither a token id nor a list of them.")
    return tuple(dict.fromkeys(value for value in (own, *ids) if value is not None))


def _chat_templates(config: dict[str, Any], folder: Path) -> dict[str, str]:
    """Template files win over the `chat_template` of tokenizer_config.json, as in transformers."""
    templates: dict[str, str] = {}
    configured = config.get("chat_template")
    if isinstance(configured, str):
        templates["default"] = configured
    elif isinstance(configured, list):
        templates |= {entry["name"]: entry["template"] for entry in configured}
    for subfolder in ("chat_templates", "additional_chat_templates"):
        for file in sorted((folder / subfolder).glob("*.jinja")):
            templates[file.stem] = file.read_text(encoding="utf-8")
    single = folder / "chat_template.jinja"
    if single.exists():
        templates["default"] = single.read_text(encoding="utf-8")
    return templates


def _response_template(config: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    template = config.get("response_template")
    if template is not None and not isinstance(template, dict):
        raise TokenizerError(
            f"{folder / 'tokenizer_config.json'}, response_template: holds a {type(template).__name__} where an object "
            "is expected."
        )
    return template
