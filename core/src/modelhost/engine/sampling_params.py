"""What a request asks of the sampler: vLLM's names and defaults, every value checked on construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, Self

from modelhost.api import RequestError

__all__ = ["GREEDY_TEMPERATURE", "SamplingParams"]

GREEDY_TEMPERATURE = 1e-5
_MAX_SEQUENCES = 16384
_SEED_LOW, _SEED_HIGH = -(2**63), 2**64 - 1
_MAX_BIAS = 100


@dataclass(frozen=True)
class _Range:
    """Allowed values of a number; ``text`` says them in an error message."""

    kind: Literal["integer", "number"]
    low: float
    high: float | None = None
    above_low: bool = False
    optional: bool = False
    note: str = ""

    @property
    def text(self) -> str:
        article = "an integer" if self.kind == "integer" else "a number"
        if self.high is not None:
            bounds = f"in {'(' if self.above_low else '['}{self.low}, {self.high}]"
        else:
            bounds = f"{'>' if self.above_low else '>='} {self.low}"
        return f"{article} {bounds}{' or None' if self.optional else ''}{self.note}"

    def check(self, name: str, value: object) -> int | float | None:
        if value is None and self.optional:
            return None
        wanted = Integral if self.kind == "integer" else Real
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise RequestError(f"{name} must be {self.text}, got {value!r}")
        number = int(value) if isinstance(value, Integral) else float(value)
        above = number > self.low if self.above_low else number >= self.low
        if not (above and (self.high is None or number <= self.high)):
            raise RequestError(f"{name} must be {self.text}, got {value!r}")
        return number if self.kind == "integer" else float(number)


_RANGES: Mapping[str, _Range] = {
    "n": _Range("integer", 1, _MAX_SEQUENCES),
    "temperature": _Range("number", 0, 100, note=" (0 for greedy)"),
    "top_p": _Range("number", 0, 1, above_low=True),
    "top_k": _Range("integer", -1, note=" (0 or -1 for all tokens)"),
    "min_p": _Range("number", 0, 1),
    "repetition_penalty": _Range("number", 0, 100, above_low=True),
    "presence_penalty": _Range("number", -2, 2),
    "frequency_penalty": _Range("number", -2, 2),
    "seed": _Range("integer", _SEED_LOW, _SEED_HIGH, optional=True),
    "max_tokens": _Range("integer", 1, optional=True),
    "min_tokens": _Range("integer", 0),
    "logprobs": _Range("integer", -1, optional=True, note=" (-1 for all tokens)"),
    "prompt_logprobs": _Range("integer", -1, optional=True, note=" (-1 for all tokens)"),
}
_FLAGS = ("include_stop_str_in_output", "ignore_eos", "detokenize", "skip_special_tokens")


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How to sample the continuations of one prompt, and when to stop. Names and defaults are vLLM's.

    Attributes:
        n: sequences to generate; each is a sequence of its own, with seed + its index.
        temperature: below 1e-5 the most likely token is taken.
        top_p: mass of the most likely tokens to keep.
        top_k: number of most likely tokens to keep; 0 or -1 keeps all.
        min_p: least probability to keep, relative to that of the most likely token.
        repetition_penalty: over prompt and output; above 1 discourages.
        presence_penalty: subtracted from the logit of every token in the output.
        frequency_penalty: subtracted from a token's logit once for each time it is in the output.
        seed: of this request's random numbers; None or -1 for one the engine chooses.
        stop: a string or strings that end the text. Stored as a tuple.
        stop_token_ids: tokens that end the sequence, apart from the model's own. Stored as a tuple.
        include_stop_str_in_output: keep the stop string or the stop token in the text.
        ignore_eos: go on after the model's end tokens.
        max_tokens: of the output; None for as many as the context holds.
        min_tokens: of the output before a stop string or token may end it.
        logprobs: alternatives to report for every output token, next to the token itself; -1 for all.
        prompt_logprobs: the same for every prompt token.
        logit_bias: token id -> number in [-100, 100] added to its logit.
        bad_words: texts whose last token is forbidden where it would complete them. Stored as a tuple.
        allowed_token_ids: the only tokens that may be sampled. Stored as a tuple.
        detokenize: produce text; needed for ``stop``.
        skip_special_tokens: leave special tokens out of the text.

    Raises:
        RequestError: names the field, its value and what is allowed.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop: Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    bad_words: Sequence[str] | None = None
    allowed_token_ids: Sequence[int] | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True

    def __new__(cls, *args: Any, **values: Any) -> Self:
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise RequestError(_unknown(name, known))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, allowed in _RANGES.items():
            self._set(name, allowed.check(name, getattr(self, name)))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise RequestError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.seed == -1:
            self._set("seed", None)
        self._set("stop", _texts("stop", self.stop))
        self._set("bad_words", _texts("bad_words", self.bad_words))
        self._set("stop_token_ids", _token_ids("stop_token_ids", self.stop_token_ids))
        if self.allowed_token_ids is not None:
            self._set("allowed_token_ids", _token_ids("allowed_token_ids", self.allowed_token_ids))
        self._set("logit_bias", _biases(self.logit_bias))
        self._check_together()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self) -> None:
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise RequestError(f"min_tokens must be at most max_tokens, {self.max_tokens}, got {self.min_tokens}")
        if self.allowed_token_ids is not None and not self.allowed_token_ids:
            raise RequestError(
                "allowed_token_ids must name at least one token, or be None to allow all, got an empty list"
            )
        if self.stop and not self.detokenize:
            raise RequestError(
                f"stop needs the text: set detokenize=True or leave stop out, got stop={list(self.stop)!r}"
            )
        if self.is_greedy and self.n > 1:
            raise RequestError(
                f"n must be 1 when temperature is 0, since every sequence would be the same, got {self.n}"
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature < GREEDY_TEMPERATURE

    def check_model(self, vocab_size: int, max_logprobs: int = 20) -> None:
        """Check what depends on the model and the engine.

        Args:
            vocab_size: length of a row of logits.
            max_logprobs: most alternatives that the engine reports; -1 for no limit.

        Raises:
            RequestError: a token id is not in the vocabulary, or more logprobs are asked for than allowed.
        """
        for name in ("logprobs", "prompt_logprobs"):
            asked = getattr(self, name)
            count = vocab_size if asked == -1 else asked
            if count is not None and 0 <= max_logprobs < count:
                every = f" (all {vocab_size} tokens)" if asked == -1 else ""
                raise RequestError(
                    f"{name} must be at most {max_logprobs}, the engine's max_logprobs, got {asked}{every}"
                )
        for name in ("stop_token_ids", "allowed_token_ids", "logit_bias"):
            for token_id in getattr(self, name) or ():
                if token_id >= vocab_size:
                    raise RequestError(
                        f"{name} must hold token ids in [0, {vocab_size - 1}], the model's vocabulary, got {token_id}"
                    )


def _texts(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    single = isinstance(value, str)
    if single:
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise RequestError(f"{name} must be a string, a list of strings or None, got {value!r}")
    texts = tuple(value)
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text:
            where = name if single else f"{name}[{index}]"
            raise RequestError(f"{where} must be a string that is not empty, got {text!r}")
    return tuple(dict.fromkeys(texts))


def _token_ids(name: str, value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise RequestError(f"{name} must be a list of token ids or None, got {value!r}")
    token_ids = list(value)
    for index, token_id in enumerate(token_ids):
        if isinstance(token_id, bool) or not isinstance(token_id, Integral) or token_id < 0:
            raise RequestError(f"{name}[{index}] must be a token id, an integer >= 0, got {token_id!r}")
    return tuple(dict.fromkeys(int(token_id) for token_id in token_ids))


def _biases(value: object) -> dict[int, float] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RequestError(f"logit_bias must map token ids to numbers or be None, got {value!r}")
    bounds = _Range("number", -_MAX_BIAS, _MAX_BIAS)
    biases: dict[int, float] = {}
    for key, bias in value.items():
        token_id = int(key) if isinstance(key, str) and key.isdecimal() else key
        if isinstance(token_id, bool) or not isinstance(token_id, Integral) or token_id < 0:
            raise RequestError(f"logit_bias must have token ids, integers >= 0, as keys, got {key!r}")
        biases[int(token_id)] = float(bounds.check(f"logit_bias[{token_id}]", bias) or 0.0)
    return biases


def _unknown(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name.lower().replace("-", "_"), known, 1, 0.5)
    if close:
        return f"unknown sampling parameter {name!r}: did you mean {close[0]!r}?"
    return f"unknown sampling parameter {name!r}; known are: {', '.join(known)}"
