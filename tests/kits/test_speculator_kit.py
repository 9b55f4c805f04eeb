"""The speculator kit passes honest methods and fails others, each by the check that is named for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from modelhost.api.speculator import Draft, SpeculatedSequence, SpeculationContext
from modelhost.testing.arrays import ConformanceError
from modelhost.testing.speculator import CHECKS, chi_square_limit, speculator_checks


class LookUp:
    """Proposes what followed the last token before."""

    def __init__(self, context: SpeculationContext, settings: object | None = None) -> None:
        self.vocab_size = context.vocab_size

    def propose(self, sequences: Sequence[SpeculatedSequence]) -> list[Draft]:
        return [self.draft(sequence) for sequence in sequences]

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        tokens = list(sequence.token_ids)
        for place, token in enumerate(tokens[:-1]):
            if token == tokens[-1]:
                return Draft(tokens[place + 1 : place + 1 + sequence.count])
        return Draft()

    def finish(self, request_id: str) -> None:
        pass


class Nothing(LookUp):
    def draft(self, sequence: SpeculatedSequence) -> Draft:
        return Draft()


class TooLong(LookUp):
    def draft(self, sequence: SpeculatedSequence) -> Draft:
        return Draft([1] * (sequence.count + 1))


class Outside(LookUp):
    def draft(self, sequence: SpeculatedSequence) -> Draft:
        return Draft([self.vocab_size][: sequence.count])


class OneDraftOnly(LookUp):
    def propose(self, sequences: Sequence[SpeculatedSequence]) -> list[Draft]:
        return super().propose(sequences)[:1]


class Uneven(LookUp):
    """States probabilities that do not add up to one."""

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        tokens = [1][: sequence.count]
        return Draft(tokens, np.full((len(tokens), self.vocab_size), 0.5, np.float32))


class Impossible(LookUp):
    """Draws a token that its distribution rules out."""

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        tokens = [1][: sequence.count]
        rows = np.zeros((len(tokens), self.vocab_size), np.float32)
        rows[:, 2] = 1
        return Draft(tokens, rows)


class Lies(LookUp):
    """Draws always the likeliest follower and says that all tokens were as likely."""

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        tokens = list(super().draft(sequence).token_ids) or [7][: sequence.count]
        return Draft(tokens, np.full((len(tokens), self.vocab_size), 1 / self.vocab_size, np.float32))


class Mixes(LookUp):
    """Looks up in whatever sequence it saw last."""

    def __init__(self, context: SpeculationContext, settings: object | None = None) -> None:
        super().__init__(context, settings)
        self.followers: dict[int, int] = {}

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        tokens = list(sequence.token_ids)
        self.followers.update(pairwise(tokens))
        follower = self.followers.get(tokens[-1])
        return Draft([] if follower is None else [follower][: sequence.count])


class Remembers(LookUp):
    """Keeps what it knows of a sequence after its end."""

    def __init__(self, context: SpeculationContext, settings: object | None = None) -> None:
        super().__init__(context, settings)
        self.known: dict[str, list[int]] = {}

    def draft(self, sequence: SpeculatedSequence) -> Draft:
        known = self.known.setdefault(sequence.request_id, [])
        known.extend(list(sequence.token_ids)[len(known) :])
        return super().draft(SpeculatedSequence(sequence.request_id, known, sequence.count))


def failing(factory: type[LookUp], *checks: str) -> dict[str, str]:
    found = {}
    for parameter in speculator_checks(factory):
        if parameter.id in (checks or CHECKS):
            try:
                parameter.values[0]()
            except ConformanceError as error:
                found[str(parameter.id)] = str(error)
    return found


def test_a_good_speculator_passes() -> None:
    assert failing(LookUp) == {}


@pytest.mark.parametrize(
    ("factory", "check", "text"),
    [
        (Nothing, "proposes", "nothing is proposed anywhere"),
        (TooLong, "well_formed", "has 5 tokens, asked for were 4"),
        (Outside, "well_formed", "has tokens outside the vocabulary of 65"),
        (OneDraftOnly, "well_formed", "propose returned 1 drafts for 9 sequences"),
        (Uneven, "well_formed", "must not be negative and add up to 1 in every row"),
        (Impossible, "well_formed", "has a token that its distribution gives no chance"),
        (Mixes, "independent", "gets the draft"),
        (Remembers, "forgets", "under an id that was used before"),
    ],
)
def test_a_broken_speculator_fails(factory: type[LookUp], check: str, text: str) -> None:
    assert text in failing(factory, check)[check]


def test_false_probabilities_change_the_distribution() -> None:
    assert "are distributed otherwise than without speculation" in failing(Lies, "distribution")["distribution"]


def test_chi_square_limit() -> None:
    """Against the 0.9999 quantiles of the distribution."""
    for freedom, quantile in ((5, 25.745), (20, 52.386), (100, 161.319)):
        assert chi_square_limit(freedom) == pytest.approx(quantile, rel=0.03)


def test_expected_failures_become_strict_xfails() -> None:
    parameters = {p.id: p for p in speculator_checks(Nothing, expected_failures={"proposes": "it never does"})}
    assert parameters["proposes"].marks[0].kwargs == {"reason": "it never does", "strict": True}
    with pytest.raises(ValueError, match=r"^expected_failures names checks that do not exist: propose$"):
        speculator_checks(Nothing, expected_failures={"propose": "misspelt"})
