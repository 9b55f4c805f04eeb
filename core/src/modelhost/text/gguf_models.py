"""Building a `tokenizers.Tokenizer` from a GGUF vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from modelhost.api import TokenizerError

from .gguf_vocabulary import GGUFVocabulary, TokenType
from .post_processor import begin_and_end
from .sentencepiece_merges import merges_from_scores

SPACE = "\u2581"


def build_tokenizer(vocabulary: GGUFVocabulary) -> Tokenizer:
    """A tokenizer with the vocabulary's model, added tokens and begin and end tokens.

    Control and unknown tokens become special, user-defined ones added but not special; both are matched in text as
    they stand, before anything else.

    Raises:
        TokenizerError: a field that this kind of vocabulary needs is missing or inconsistent.
    """
    if vocabulary.model == "llama" and not vocabulary.add_space_prefix:
        vocabulary = _with_escaped_spaces(vocabulary)
    tokenizer = _BUILDERS[vocabulary.model](vocabulary)
    tokenizer.add_tokens(_added_tokens(vocabulary))
    tokenizer.post_processor = _post_processor(vocabulary)
    return tokenizer


def _byte_level_bpe(vocabulary: GGUFVocabulary) -> Tokenizer:
    pre = vocabulary.pre_tokenizer
    if pre is None or pre.raw_text:
        return _raw_text_bpe(vocabulary)
    tokenizer = Tokenizer(_bpe(vocabulary, _stored_merges(vocabulary), ignore_merges=pre.ignore_merges))
    splits: list[Any] = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in pre.splits]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _raw_text_bpe(vocabulary: GGUFVocabulary) -> Tokenizer:
    splits = vocabulary.pre_tokenizer.splits if vocabulary.pre_tokenizer else ()
    tokenizer = Tokenizer(_bpe(vocabulary, _stored_merges(vocabulary), byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in splits]
    )
    tokenizer.decoder = _sentencepiece_decoder(strip=False)
    return tokenizer


def _sentencepiece_bpe(vocabulary: GGUFVocabulary) -> Tokenizer:
    if vocabulary.scores is None:
        raise TokenizerError("GGUF field 'tokenizer.ggml.scores' is missing; a SentencePiece vocabulary needs it.")
    mergeable = vocabulary.with_type(TokenType.NORMAL, TokenType.UNUSED, TokenType.UNDEFINED)
    merges = merges_from_scores(vocabulary.tokens, vocabulary.scores, mergeable)
    tokenizer = Tokenizer(_bpe(vocabulary, merges, byte_fallback=True))
    steps: list[Any] = [normalizers.Prepend(SPACE)] if vocabulary.add_space_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = _sentencepiece_decoder(strip=vocabulary.add_space_prefix)
    return tokenizer


def _unigram(vocabulary: GGUFVocabulary) -> Tokenizer:
    if vocabulary.scores is None:
        raise TokenizerError("GGUF field 'tokenizer.ggml.scores' is missing; a unigram vocabulary needs it.")
    scored = [(text, float(score)) for text, score in zip(vocabulary.tokens, vocabulary.scores, strict=True)]
    has_bytes = bool(vocabulary.with_type(TokenType.BYTE))
    tokenizer = Tokenizer(models.Unigram(scored, vocabulary.ids.get("unknown"), has_bytes))
    steps: list[Any] = []
    charsmap = vocabulary.metadata.get("tokenizer.ggml.precompiled_charsmap")
    if charsmap is not None and len(charsmap):
        steps.append(normalizers.Precompiled(bytes(int(value) & 0xFF for value in charsmap)))
    if vocabulary.metadata.get("tokenizer.ggml.remove_extra_whitespaces"):
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    scheme = "always" if vocabulary.add_space_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, scheme, split=False)
    tokenizer.decoder = (
        _sentencepiece_decoder(strip=vocabulary.add_space_prefix)
        if has_bytes
        else decoders.Metaspace(SPACE, scheme, split=False)
    )
    return tokenizer


def _word_piece(vocabulary: GGUFVocabulary) -> Tokenizer:
    unknown = vocabulary.tokens[vocabulary.ids["unknown"]] if "unknown" in vocabulary.ids else "[UNK]"
    named = {_word_piece_text(text): index for index, text in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(models.WordPiece(named, unk_token=unknown, max_input_chars_per_word=100))
    lowercase = bool(vocabulary.metadata.get("tokenizer.ggml.normalizer.lowercase", True))
    accents = vocabulary.metadata.get("tokenizer.ggml.normalizer.strip_accents", lowercase)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=bool(accents))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _word_piece_text(text: str) -> str:
    """GGUF marks the start of a word with `▁`; WordPiece marks its continuation with `##`."""
    if text.startswith("[") and text.endswith("]"):
        return text
    return text[1:] if text.startswith(SPACE) else "##" + text


_BUILDERS: dict[str, Callable[[GGUFVocabulary], Tokenizer]] = {
    "gpt2": _byte_level_bpe,
    "gemma4": _raw_text_bpe,
    "llama": _sentencepiece_bpe,
    "t5": _unigram,
    "bert": _word_piece,
}


def _bpe(vocabulary: GGUFVocabulary, merges: list[tuple[str, str]], **options: Any) -> models.BPE:
    ids = dict(zip(vocabulary.tokens, range(len(vocabulary.tokens)), strict=True))
    if options.get("byte_fallback") and "unknown" in vocabulary.ids:
        options |= {"unk_token": vocabulary.tokens[vocabulary.ids["unknown"]], "fuse_unk": True}
    try:
        return models.BPE(vocab=ids, merges=merges, **options)
    except Exception as error:
        raise TokenizerError(f"GGUF field 'tokenizer.ggml.merges' does not fit the vocabulary: {error}.") from error


def _stored_merges(vocabulary: GGUFVocabulary) -> list[tuple[str, str]]:
    if vocabulary.merges is None:
        raise TokenizerError("GGUF field 'tokenizer.ggml.merges' is missing; a byte-level BPE vocabulary needs it.")
    merges = vocabulary.merges
    pairs = [(merge[:cut], merge[cut + 1 :]) for merge in merges if (cut := merge.find(" ", 1)) > 0]
    if len(pairs) < len(merges):
        rank = next(rank for rank, merge in enumerate(merges) if merge.find(" ", 1) < 0)
        raise TokenizerError(f"GGUF field 'tokenizer.ggml.merges', entry {rank}: {merges[rank]!r} is not a pair.")
    return pairs


def _with_escaped_spaces(vocabulary: GGUFVocabulary) -> GGUFVocabulary:
    """User-defined tokens with `▁` for a space, as SentencePiece matches them: in text whose spaces are escaped."""
    tokens = list(vocabulary.tokens)
    for index in vocabulary.with_type(TokenType.USER_DEFINED):
        tokens[index] = tokens[index].replace(" ", SPACE)
    return replace(vocabulary, tokens=tokens)


def _sentencepiece_decoder(*, strip: bool) -> decoders.Decoder:
    steps: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)


def _added_tokens(vocabulary: GGUFVocabulary) -> list[AddedToken]:
    user_defined = frozenset(vocabulary.with_type(TokenType.USER_DEFINED))
    escaped = {index for index in user_defined if SPACE in vocabulary.tokens[index] and not vocabulary.add_space_prefix}
    rstrip = _right_stripping(vocabulary)
    return [
        AddedToken(
            vocabulary.tokens[index],
            normalized=index in escaped,
            special=index in vocabulary.special_ids,
            rstrip=index in rstrip,
        )
        for index in sorted(vocabulary.special_ids | user_defined)
    ]


def _right_stripping(vocabulary: GGUFVocabulary) -> frozenset[int]:
    """Phi-3's control tokens swallow the space after them, which a GGUF file cannot say (llama.cpp does the same)."""
    name = str(vocabulary.metadata.get("general.name", "")).lower()
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    kept = ("<unk>", "<s>", "<|endoftext|>")
    return frozenset(index for index in vocabulary.special_ids if vocabulary.tokens[index] not in kept)


def _post_processor(vocabulary: GGUFVocabulary) -> processors.PostProcessor:
    last = "seperator" if vocabulary.model == "bert" else "eos"
    first_ids = [_required_id(vocabulary, "bos", "add_bos_token")] if vocabulary.add_bos else []
    last_ids = [_required_id(vocabulary, last, "add_eos_token")] if vocabulary.add_eos else []
    return begin_and_end(
        [(vocabulary.tokens[index], index) for index in first_ids],
        [(vocabulary.tokens[index], index) for index in last_ids],
    )


def _required_id(vocabulary: GGUFVocabulary, name: str, flag: str) -> int:
    if name not in vocabulary.ids:
        raise TokenizerError(
            f"GGUF field 'tokenizer.ggml.{name}_token_id' is missing, but 'tokenizer.ggml.{flag}' asks for that token."
        )
    return vocabulary.ids[name]
