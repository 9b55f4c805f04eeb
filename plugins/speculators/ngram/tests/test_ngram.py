from __future__ import annotations

import random

import pytest
from modelhost_ngram.ngram import NGram, NGramIndex
from modelhost_ngram.settings import NGramSettings

from modelhost.api.speculator import SpeculatedSequence, SpeculationContext


def propose(tokens: list[int], count: int = 3, **settings: int) -> list[int]:
    method = NGram(SpeculationContext(100, 100, count), NGramSettings(**settings))
    [draft] = method.propose([SpeculatedSequence("a", tokens, count)])
    return list(draft.token_ids)


def test_what_followed_is_proposed() -> None:
    assert propose([1, 2, 3, 4, 9, 1, 2]) == [3, 4, 9]


def test_nothing_is_proposed_without_an_occurrence() -> None:
    assert propose([1, 2, 3, 4]) == []
    assert propose([1]) == []


def test_the_longest_match_wins() -> None:
    assert propose([7, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3], prompt_lookup_min=2, prompt_lookup_max=3) == [60, 1, 2]


def test_of_equal_matches_the_earliest_wins() -> None:
    assert propose([1, 2, 50, 1, 2, 60, 1, 2], prompt_lookup_max=2) == [50, 1, 2]


def test_a_match_may_overlap_the_end() -> None:
    assert propose([5, 5, 5]) == [5]


def test_shorter_n_grams_than_the_least_do_not_count() -> None:
    assert propose([1, 2, 9, 2], prompt_lookup_min=2) == []
    assert propose([1, 2, 9, 2], prompt_lookup_min=1) == [9, 2]


def brute_force(tokens: list[int], shortest: int, longest: int) -> int | None:
    for length in range(min(longest, len(tokens)), shortest - 1, -1):
        for end in range(length, len(tokens)):
            if tokens[end - length : end] == tokens[-length:]:
                return end
    return None


@pytest.mark.parametrize("seed", range(20))
def test_the_index_equals_a_search(seed: int) -> None:
    rng = random.Random(seed)
    tokens: list[int] = []
    index = NGramIndex(2, 4)
    for _ in range(80):
        tokens.extend(rng.randrange(4) for _ in range(rng.randint(1, 3)))
        assert index.continuation(tokens) == brute_force(tokens, 2, 4)


def test_lengths_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="prompt_lookup_min 4 is above prompt_lookup_max 3"):
        NGramSettings(prompt_lookup_min=4, prompt_lookup_max=3)
