from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhost.engine.sampling_params import SamplingParams
from modelhost.engine.stopping import Ending, StopStrings, TokenStops
from tests.counting import lines_executed


def feed(stops: StopStrings, pieces: list[str]) -> tuple[str, str | None]:
    """All that is emitted, and the stop string."""
    results = [stops.push(piece) for piece in pieces]
    stopped = next((on for _, on in results if on is not None), None)
    return "".join(text for text, _ in results) + stops.finish(), stopped


def first_complete(text: str, stop: list[str], include: bool) -> tuple[str, str | None]:
    """The definition: the shortest beginning of ``text`` that ends with a stop string ends there."""
    for end in range(1, len(text) + 1):
        for string in stop:
            if text[:end].endswith(string):
                return text[: end if include else end - len(string)], string
    return text, None


TEXT = st.text(alphabet="ab\n", max_size=30)
STOPS = st.lists(st.text(alphabet="ab\n", min_size=1, max_size=5), max_size=4)


@given(pieces=st.lists(TEXT, max_size=8), stop=STOPS, include=st.booleans())
def test_any_split_of_a_text_gives_the_one_shot_result(pieces, stop, include):
    expected = first_complete("".join(pieces), stop, include)
    assert feed(StopStrings(stop, include), pieces) == expected
    assert feed(StopStrings(stop, include), ["".join(pieces)]) == expected
    assert feed(StopStrings(stop, include), list("".join(pieces))) == expected


@given(text=TEXT, stop=STOPS)
def test_what_is_held_back_is_exactly_what_may_become_a_stop_string(text, stop):
    stops, shown = StopStrings(stop), ""
    for end, character in enumerate(text, 1):
        emitted, stopped_on = stops.push(character)
        shown += emitted
        if stopped_on is not None:
            return
        prefixes = {string[:length] for string in stop for length in range(1, len(string))}
        held = max((length for length in range(1, end + 1) if text[end - length : end] in prefixes), default=0)
        assert shown == text[: end - held]


def test_a_stop_string_over_several_pieces():
    stops = StopStrings(["</answer>"])
    assert stops.push("42</") == ("42", None)
    assert stops.push("answer") == ("", None)
    assert stops.push("> more") == ("", "</answer>")
    assert stops.push("and more") == ("", "</answer>")
    assert stops.finish() == ""


def test_text_that_only_began_like_a_stop_string_is_released():
    stops = StopStrings(["</answer>"])
    assert stops.push("1 <") == ("1 ", None)
    assert stops.push("/ 2 </") == ("</ 2 ", None)
    assert stops.finish() == "</"


def test_the_string_that_is_complete_first_wins():
    assert feed(StopStrings(["abcd", "bc"]), ["abcd"]) == ("a", "bc")


@pytest.mark.parametrize(("stop", "expected"), [(["bc", "abc"], ("xa", "bc")), (["abc", "bc"], ("x", "abc"))])
def test_of_strings_complete_together_the_first_listed_wins(stop, expected):
    assert feed(StopStrings(stop), ["xab", "c"]) == expected


def test_an_included_stop_string_is_emitted_and_nothing_is_held_back():
    stops = StopStrings(["END"], include=True)
    assert stops.push("xE") == ("xE", None)
    assert stops.push("NDy") == ("ND", "END")


def test_strings_that_are_complete_before_min_tokens_pass():
    stops = StopStrings(["ab", "abc"])
    assert stops.push("ab", check=False) == ("", None)
    assert stops.push("xab", check=False) == ("abx", None)
    assert stops.push("c") == ("", "abc")
    assert StopStrings(["ab"]).push("ab", check=False) == ("ab", None)


def test_a_match_that_ends_after_min_tokens_counts_though_it_began_before():
    stops = StopStrings(["ab"])
    assert stops.push("xa", check=False) == ("x", None)
    assert stops.push("b") == ("", "ab")


@pytest.mark.parametrize("stop", [None, (), []])
def test_without_stop_strings_all_text_passes(stop):
    assert feed(StopStrings(stop), ["a", "", "b"]) == ("ab", None)


def test_one_string_may_be_given_without_a_list():
    assert feed(StopStrings("bc"), ["abc"]) == ("a", "bc")


def test_work_does_not_grow_with_the_number_or_length_of_strings():
    text = "a" * 2_000

    def work(longest: int) -> int:
        strings = StopStrings(["a" * length + "b" for length in range(1, longest)])
        return lines_executed(lambda: feed(strings, list(text)))

    assert work(300) < 2 * work(3)


def check(
    token_ids: list[int], prompt_length: int = 4, max_model_len: int = 100, eos: tuple[int, ...] = (2,), **values
):
    return TokenStops(SamplingParams(**values), eos, max_model_len).check(token_ids, prompt_length)


def test_an_end_token_of_the_model():
    assert check([5, 2]) == Ending("stop", None, hides_token=True)
    assert check([5, 9], eos=(2, 9)) == Ending("stop", None, hides_token=True)
    assert check([2, 5]) is None
    assert check([]) is None


def test_ignored_end_token():
    assert check([5, 2], ignore_eos=True) is None
    assert check([5, 2], ignore_eos=True, stop_token_ids=[2]) == Ending("stop", 2, hides_token=True)


def test_a_stop_token_is_named():
    assert check([5, 7], stop_token_ids=[6, 7]) == Ending("stop", 7, hides_token=True)
    assert check([5, 2], stop_token_ids=[2]) == Ending("stop", None, hides_token=True)


def test_an_included_stop_token_shows():
    assert check([7], stop_token_ids=[7], include_stop_str_in_output=True) == Ending("stop", 7, hides_token=False)


def test_lengths():
    assert check([5] * 2, max_tokens=3) is None
    assert check([5] * 3, max_tokens=3) == Ending("length")
    assert check([5] * 5, max_tokens=None, prompt_length=4, max_model_len=10) is None
    assert check([5] * 6, max_tokens=None, prompt_length=4, max_model_len=10) == Ending("length")
    assert check([5] * 6, max_tokens=50, prompt_length=4, max_model_len=10) == Ending("length")


def test_a_stop_counts_before_a_length():
    assert check([5, 5, 2], max_tokens=3) == Ending("stop", None, hides_token=True)
    assert check([5, 5, 7], max_tokens=3, stop_token_ids=[7]) == Ending("stop", 7, hides_token=True)


def test_nothing_but_the_context_ends_a_sequence_before_min_tokens():
    assert check([2], min_tokens=2) is None
    assert check([5, 2], min_tokens=2) == Ending("stop", None, hides_token=True)
    assert check([5, 7], min_tokens=3, stop_token_ids=[7]) is None
    assert check([5, 7], min_tokens=3, prompt_length=8, max_model_len=10) == Ending("length")
