"""The text splits behind each value of `tokenizer.ggml.pre`.

A byte-level BPE merges only inside the pieces that its split expressions leave, so the expressions are part of the
vocabulary. The names, and what each stands for, are those of llama.cpp (`src/llama-vocab.cpp`). Where llama.cpp
rewrites an expression to suit C++ `std::regex`, the expression of the model's own tokenizer is used instead.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from modelhost.api import TokenizerError, UnsupportedError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_NEWLINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _words(number: str, *, contraction: str = _CONTRACTION + "|") -> str:
    letters = r"[^\r\n\p{L}\p{N}]?\p{L}+"
    return rf"{contraction}{letters}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_NEWLINES_AND_SPACES}"


def _cased_words(
    number: str, *, contraction: str = _CONTRACTION + "?", upper: str = _UPPER, lower: str = _LOWER
) -> str:
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{lead}{upper}*{lower}+{contraction}|{lead}{upper}+{lower}*{contraction}"
        rf"|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_NEWLINES_AND_SPACES}"
    )


_LLAMA3 = _words(r"\p{N}{1,3}")
_QWEN2 = _words(r"\p{N}")
_GPT4O = _cased_words(r"\p{N}{1,3}")
_TEKKEN = _cased_words(r"\p{N}", contraction="")

_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_NEWLINES_AND_SPACES}"
)
_JAIS2_SPACES = "|".join(rf"\s{{{count}}}(?!\S)" for count in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2"))
_JAIS2 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+"
    rf"|{_JAIS2_SPACES}|\s{{1}}"
)
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_SEED_CODER = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_NEWLINES_AND_SPACES}"
)
_NOT_HAN_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_NOT_HAN_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_KIMI_K2 = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_NOT_HAN_UPPER}*{_NOT_HAN_LOWER}+{_CONTRACTION}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_NOT_HAN_UPPER}+{_NOT_HAN_LOWER}*{_CONTRACTION}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_NEWLINES_AND_SPACES}"
)

_ASCII_PUNCTUATION_WORD = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
_DEEPSEEK3_LETTERS = rf"{_ASCII_PUNCTUATION_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
_DEEPSEEK3_WORDS = rf"{_DEEPSEEK3_LETTERS}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_NEWLINES_AND_SPACES}"
_HAN_AND_KANA = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"
_DEEPSEEK_CJK = r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+"
# The letters of scripts with case, spelled out by code point as in DeepSeek's tokenizer.json.
_DEEPSEEK_CASED_LETTERS = (
    r"\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293}\x{0295}-\x{02AF}"
    r"\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A}\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}"
    r"\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-\x{0556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}"
    r"\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}"
    r"\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}"
    r"\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}"
    r"\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}"
    r"\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}"
    r"\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}"
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}"
    r"\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}"
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+"
)
_DEEPSEEK_PUNCTUATION = r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"
_AFMOE_ASIAN = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}"
    r"\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}"
    r"\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
)
_YOUTU_ASIAN = (
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+"
    r"|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+"
    rf"|[\x{{3105}}-\x{{312F}}]+|{_HAN_AND_KANA}"
)
_BLOOM = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+"


@dataclass(frozen=True)
class PreTokenizer:
    """How a byte-level vocabulary splits text before merging.

    `splits` are Oniguruma expressions applied one after another; what one matches, and what lies between its matches,
    are the pieces that the next one sees. `ignore_merges` takes a piece that is a token as it stands without merging.
    `raw_text` vocabularies hold text with `▁` for a space (and `<0xXX>` byte tokens) in place of the byte alphabet.
    """

    splits: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    raw_text: bool = False


_LINES = PreTokenizer((r"[^\n]+|[\n]+",), raw_text=True)

_TABLE: dict[tuple[str, ...], PreTokenizer] = {
    ("default",): PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    (
        "llama3",
        "llama-v3",
        "llama-bpe",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
        "jina-v5-nano",
    ): PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
    ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"): PreTokenizer((_LLAMA3,)),
    ("minicpm5",): PreTokenizer((r"\p{N}{1,3}", _words(r"\p{N}+")), ignore_merges=True),
    ("jais-2",): PreTokenizer((_JAIS2,)),
    ("deepseek-llm",): PreTokenizer(
        (r"[\r\n]", _DEEPSEEK_CASED_LETTERS, _DEEPSEEK_PUNCTUATION, r"\s+$", _DEEPSEEK_CJK, r"\p{N}+")
    ),
    ("deepseek-coder",): PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK, r"\p{N}")),
    ("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"): PreTokenizer(
        (r"\p{N}{1,3}", _HAN_AND_KANA, _DEEPSEEK3_WORDS)
    ),
    ("spark2_5",): PreTokenizer(
        (
            r"\p{N}{1,3}",
            _HAN_AND_KANA,
            rf"{_DEEPSEEK3_LETTERS}| ?[\p{{P}}\p{{S}}]+|[\r\n]|\s+(?!\S)|\s+",
            r"\p{N}",
        )
    ),
    ("youtu",): PreTokenizer((_YOUTU_ASIAN, _cased_words(r"\p{N}")), ignore_merges=True),
    ("falcon",): PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]")),
    (
        "starcoder",
        "refact",
        "command-r",
        "smollm",
        "codeshell",
        "exaone",
        "minerva-7b",
        "mellum2",
    ): PreTokenizer((r"\p{N}", GPT2)),
    (
        "gpt-2",
        "phi-2",
        "jina-es",
        "jina-de",
        "gigachat",
        "jina-v2-es",
        "jina-v2-de",
        "a.x-4.0",
        "mellum",
        "modern-bert",
        "jina-v1-en",
        "jina-v2-code",
        "roberta-bpe",
        "exaone4",
        "mpt",
        "olmo",
        "jais",
        "trillion",
        "granite-docling",
    ): PreTokenizer((GPT2,)),
    (
        "qwen2",
        "deepseek-r1-qwen",
        "kormo",
        "f2llmv2",
        "megrez",
        "stablelm2",
        "hunyuan",
        "solar-open",
        "grok-2",
    ): PreTokenizer((_QWEN2,)),
    ("qwen35",): PreTokenizer((_QWEN35,)),
    ("ufakzeka",): PreTokenizer((_words(r"\p{N}", contraction=""),)),
    ("laguna",): PreTokenizer((r"[^\n]+|[\n]+", _QWEN2)),
    ("poro-chat", "bloom", "gpt3-finnish"): PreTokenizer((_BLOOM,)),
    ("viking",): PreTokenizer((_BLOOM, r"\p{N}")),
    ("tekken",): PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True),
    ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"): PreTokenizer((_GPT4O,)),
    ("granite-embed-multi-97m",): PreTokenizer((_GPT4O,), ignore_merges=True),
    ("tiny_aya", "cohere2moe"): PreTokenizer((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O)),
    ("chameleon",): PreTokenizer(
        (
            r"<sentinel:[0-9]+>",
            r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            r"([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ),
        add_bos=True,
    ),
    ("kimi-k2",): PreTokenizer((_KIMI_K2,)),
    ("superbpe",): PreTokenizer((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    ("bailingmoe", "bailingmoe2", "llada-moe"): PreTokenizer((_BAILING,)),
    ("seed-coder",): PreTokenizer((_SEED_CODER,)),
    ("afmoe",): PreTokenizer((r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", _AFMOE_ASIAN, _DEEPSEEK3_WORDS)),
    ("exaone-moe",): PreTokenizer((_EXAONE_MOE,)),
    ("gemma4", "granite-embed-multi-311m", "sarvam-moe"): _LINES,
}

PRE_TOKENIZERS: dict[str, PreTokenizer] = {name: entry for names, entry in _TABLE.items() for name in names}
"""Every supported value of `tokenizer.ggml.pre`."""

_UNSUPPORTED = frozenset({"whitespace"})


def pre_tokenizer_for(name: str | None) -> PreTokenizer:
    """The entry for a value of `tokenizer.ggml.pre`.

    Raises:
        TokenizerError: the value is missing or unknown. There is no default: a wrong split gives wrong token ids.
        UnsupportedError: llama.cpp knows the value and modelhost does not build it.
    """
    if not name:
        raise TokenizerError(
            "GGUF field 'tokenizer.ggml.pre' is missing, so how this vocabulary splits text is unknown. "
            "Convert the model again with a current converter, or pass pre_tokenizer=NAME."
        )
    if name in _UNSUPPORTED:
        raise UnsupportedError(f"GGUF field 'tokenizer.ggml.pre': the pre-tokenizer {name!r} is not supported.")
    if name not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"GGUF field 'tokenizer.ggml.pre': unknown pre-tokenizer {name!r}. "
            f"The closest known ones are {', '.join(map(repr, closest_names(name)))}. "
            "If it splits text as one of them does, pass pre_tokenizer=NAME."
        )
    return PRE_TOKENIZERS[name]


def closest_names(name: str) -> list[str]:
    """The three known pre-tokenizer names most like `name`, best first."""
    return difflib.get_close_matches(name, PRE_TOKENIZERS, n=3, cutoff=0.0)
