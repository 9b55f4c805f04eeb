"""Conformance kit for tool-call and reasoning parsers.

In the tests of a parser's package::

    from modelhost.testing.parser import Sample, parser_checks

    SAMPLES = {"a call": Sample("Hi <call>...</call>"), "text": Sample("plain text")}

    @pytest.mark.parametrize("check", parser_checks(my_format, SAMPLES))
    def test_my_format(check):
        check()

Each check raises AssertionError with the format's input and both results. :func:`check_parser` runs all of them without
pytest.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from modelhost.api.parsing import (
    CallArguments,
    CallEnd,
    CallStart,
    Event,
    Parsed,
    ParserContext,
    ParserFactory,
    collect,
    parse,
)

from .parameters import parametrize

_SEED = 2027


@dataclass(frozen=True)
class Sample:
    """An output and the request that it answers.

    Attributes:
        text: what the model wrote.
        context: the request; its tools and prompt.
        markers: texts that are single tokens of the model's vocabulary; pieces with token ids never cut them.
        ignored: regular expressions of markup whose text the format does not report, such as a call's type.
        parsed: what the format must make of the output; not checked when it is left out.
    """

    text: str
    context: ParserContext = field(default_factory=ParserContext)
    markers: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    parsed: Parsed | None = None


def parser_checks(
    factory: ParserFactory, samples: Mapping[str, Sample], *, expected_failures: Mapping[str, str] | None = None
) -> list[Any]:
    """Every check on each sample as parameters for ``pytest.mark.parametrize``, called ``check[sample]``.

    Args:
        factory: the format: the target of the parser's record.
        samples: by a name that says what is special about each.
        expected_failures: name of a check, such as ``"splits[a call]"``, to the reason why it fails. It must fail.

    Raises:
        ValueError: ``expected_failures`` names a check that does not exist.
    """
    checks = {
        f"{name}[{label}]": partial(check, factory, sample)
        for label, sample in samples.items()
        for name, check in CHECKS.items()
    }
    return parametrize(checks, expected_failures)


def check_parser(factory: ParserFactory, samples: Iterable[Sample]) -> None:
    """Runs all checks on each sample."""
    for sample in samples:
        for check in CHECKS.values():
            check(factory, sample)


def check_result(factory: ParserFactory, sample: Sample) -> None:
    """The result is the one that the sample states."""
    result = parse(factory(sample.context), sample.text)
    if sample.parsed is not None:
        assert result == sample.parsed, f"{sample.text!r}\n  gives {result}\n  instead of {sample.parsed}"


def check_splits(factory: ParserFactory, sample: Sample) -> None:
    """Cutting the text anywhere, or everywhere, gives the result of feeding it at once."""
    whole = parse(factory(sample.context), sample.text)
    _same(factory, sample, list(sample.text), whole)
    for place in range(1, len(sample.text)):
        _same(factory, sample, [sample.text[:place], sample.text[place:]], whole)


def check_random_pieces(factory: ParserFactory, sample: Sample, rounds: int = 20) -> None:
    """So does any division into pieces, empty ones included."""
    generator = random.Random(_SEED)
    whole = parse(factory(sample.context), sample.text)
    for _ in range(rounds):
        _same(factory, sample, _pieces(list(sample.text), generator), whole)


def check_random_tokens(factory: ParserFactory, sample: Sample, rounds: int = 10) -> None:
    """So does feeding tokens with their ids, one or several at a time."""
    generator = random.Random(_SEED)
    tokens = re.findall("|".join([*map(re.escape, sample.markers), r"\w+|\s+|."]), sample.text, re.DOTALL)
    ids = {token: index for index, token in enumerate(dict.fromkeys([*sample.markers, *tokens]))}
    whole = parse(factory(sample.context), sample.text)
    for _ in range(rounds):
        parser = factory(sample.context)
        events: list[Event] = []
        place = 0
        while place < len(tokens):
            group = tokens[place : place + generator.randint(1, 4)]
            place += len(group)
            events += parser.feed("".join(group), [ids[token] for token in group])
        events += parser.feed("", [len(ids)])  # an end token without text
        result = collect([*events, *parser.finish()])
        assert result == whole, _message(sample.text, tokens, result, whole)


def check_truncation(factory: ParserFactory, sample: Sample) -> None:
    """Output that ends anywhere is read without an error, its events are in order and its calls have ends."""
    for length in range(len(sample.text) + 1):
        parser = factory(sample.context)
        events = [*parser.feed(sample.text[:length]), *parser.finish()]
        _check_order(sample.text[:length], events)


def check_nothing_lost(factory: ParserFactory, sample: Sample) -> None:
    """A word put anywhere into the output, however it breaks the markup, is found in the result."""
    unreported = {
        place
        for pattern in sample.ignored
        for match in re.finditer(pattern, sample.text)
        for place in range(match.start() + 1, match.end())
    }
    for place in sorted(set(range(len(sample.text) + 1)) - unreported):
        word = f"q{place}zw"
        text = sample.text[:place] + word + sample.text[place:]
        result = parse(factory(sample.context), text)
        parts = [result.reasoning, result.content, *(part for call in result.calls for part in _parts(call))]
        assert word in "\n".join(parts), f"{word!r} is lost from {text!r}: {result}"


CHECKS: dict[str, Callable[[ParserFactory, Sample], None]] = {
    "result": check_result,
    "splits": check_splits,
    "random_pieces": check_random_pieces,
    "random_tokens": check_random_tokens,
    "truncation": check_truncation,
    "nothing_lost": check_nothing_lost,
}
"""Every check by name."""


def _parts(call: object) -> list[str]:
    return [str(getattr(call, name) or "") for name in ("name", "arguments", "id")]


def _pieces(characters: list[str], generator: random.Random) -> list[str]:
    pieces = []
    place = 0
    while place < len(characters):
        size = generator.choice((0, 1, 1, 2, 3, 5, 8, 13))
        pieces.append("".join(characters[place : place + size]))
        place += size
    return pieces


def _same(factory: ParserFactory, sample: Sample, pieces: Sequence[str], whole: Parsed) -> None:
    parser = factory(sample.context)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish()
    _check_order(sample.text, events)
    result = collect(events)
    assert result == whole, _message(sample.text, pieces, result, whole)


def _check_order(text: str, events: Iterable[Event]) -> None:
    """Calls are numbered from 0 and do not overlap; arguments belong to the open call; every call ends."""
    begun = 0
    current: int | None = None
    for event in events:
        if isinstance(event, CallStart):
            assert current is None and event.index == begun and event.name, f"{event} is out of order in {text!r}"
            current = begun
            begun += 1
        elif isinstance(event, CallArguments):
            assert event.index == current and event.text, f"{event} is out of order in {text!r}"
        elif isinstance(event, CallEnd):
            assert event.index == current, f"{event} is out of order in {text!r}"
            current = None
    assert current is None, f"call {current} of {text!r} has no end"


def _message(text: str, pieces: Sequence[str], result: Parsed, whole: Parsed) -> str:
    return f"{text!r} fed as {list(pieces)!r}\n  gives {result}\n  and at once {whole}"
