from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from modelhost.api import ModelHostError, RequestError
from modelhost.engine.sampler import Sampler, SamplingError, distribution
from modelhost.engine.sampling_params import SamplingParams

INF = float("inf")
GREEDY = SamplingParams(temperature=0)


def row(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def random_rows(count: int, vocab: int, scale: float = 2.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((count, vocab)) * scale).astype(np.float32)


def state(prompt: list[int] | tuple[int, ...] = (), eos: tuple[int, ...] = (), output: tuple[int, ...] = (), **values):
    """The state of a sequence that has ``output`` already."""
    made = Sampler(0).state("r", SamplingParams(**values), prompt, eos_token_ids=eos)
    for token_id in output:
        made.adjuster.append(token_id)
    return made


def probabilities(logits: np.ndarray, **values) -> dict[int, float]:
    ids, shares = distribution(logits, state(**values))
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()
    return dict(zip(ids.tolist(), shares.tolist(), strict=True))


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


class FakeTokenizer:
    """One token a character of the alphabet; a word after a space begins with its capital."""

    vocab_size = 52

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        assert not add_special_tokens
        if text.startswith(" "):
            text = text[1:2].upper() + text[2:]
        return [ord(c) - 97 if c.islower() else ord(c) - 65 + 26 for c in text]

    def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        assert not skip_special_tokens
        return "".join(chr(97 + i) if i < 26 else chr(65 + i - 26) for i in ids)


# Distributions


def chi_square_limit(freedom: int) -> float:
    """A value that chi-square exceeds once in 30,000 times (Wilson and Hilferty 1931)."""
    return freedom * (1 - 2 / (9 * freedom) + 4 * math.sqrt(2 / (9 * freedom))) ** 3


LOGITS = row(2.0, -1.0, 0.5, 1.9, -INF, 0.0, 3.0, -2.0)


FINITE = [0, 1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    ("values", "left"),
    [
        ({}, FINITE),
        ({"temperature": 0.5}, FINITE),
        ({"temperature": 3.0}, FINITE),
        ({"top_k": 3}, [0, 3, 6]),
        ({"top_k": 100}, FINITE),
        ({"top_p": 0.8}, [0, 3, 6]),
        ({"top_p": 0.999}, FINITE),
        ({"min_p": 0.06}, [0, 2, 3, 6]),
        ({"temperature": 2.0, "min_p": 0.2, "top_k": 4, "top_p": 0.7}, [0, 3, 6]),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_their_probability_says(values, left):
    shares = softmax(LOGITS[left] / values.get("temperature", 1.0))
    expected = dict(zip(left, shares.tolist(), strict=True))
    assert probabilities(LOGITS, **values) == pytest.approx(expected)
    sampler, made = Sampler(0), state(**values, seed=11)
    drawn = 4000
    counts = Counter(sampler.sample(LOGITS, made).token_id for _ in range(drawn))
    assert counts.keys() <= expected.keys()
    statistic = sum((counts[token] - drawn * p) ** 2 / (drawn * p) for token, p in expected.items())
    assert statistic < chi_square_limit(len(expected) - 1)


def test_every_part_of_a_large_vocabulary_is_drawn():
    logits = np.zeros(3000, np.float32)
    logits[::2] = -INF
    sampler, made = Sampler(0), state(seed=1)
    drawn = [sampler.sample(logits, made).token_id for _ in range(6000)]
    assert all(token % 2 for token in drawn)
    counts = np.bincount(np.array(drawn) // 300, minlength=10)
    assert ((counts - 600) ** 2 / 600).sum() < chi_square_limit(9)


ALMOST_ONE = float(np.nextafter(1.0, 0.0))


class Fixed:
    """A generator of one number."""

    def __init__(self, number: float) -> None:
        self._number = number

    def random(self) -> float:
        return self._number


def drawn_at(uniform: float, logits: np.ndarray) -> int:
    made = state()
    made.generator = Fixed(uniform)
    return Sampler(0).sample(logits, made).token_id


@pytest.mark.parametrize("vocab", [7, 511, 512, 513, 2000])
def test_the_ends_of_the_range_draw_the_first_and_the_last_token_with_any_probability(vocab):
    for seed in range(50):
        logits = random_rows(1, vocab, 1.0, seed)[0]
        logits[:3] = logits[-3:] = -INF
        assert drawn_at(0.0, logits) == 3
        assert drawn_at(ALMOST_ONE, logits) == vocab - 4


def test_rounding_never_draws_a_token_without_probability():
    for seed in range(300):
        logits = random_rows(1, 1000, 8.0, seed)[0]
        logits[900:] = -INF
        assert drawn_at(ALMOST_ONE, logits) < 900


# Filters, against transformers


def support(warpers: list, logits: np.ndarray) -> set[int]:
    scores = torch.from_numpy(logits[None].copy())
    for warper in warpers:
        scores = warper(None, scores)
    return set(torch.isfinite(scores[0]).nonzero()[:, 0].tolist())


@pytest.mark.parametrize("vocab", [7, 1000, 5003])
@pytest.mark.parametrize("scale", [0.1, 2.0, 8.0])
@pytest.mark.parametrize(
    ("values", "warpers"),
    [
        ({"top_k": 1}, [TopKLogitsWarper(1)]),
        ({"top_k": 40}, [TopKLogitsWarper(40)]),
        ({"top_k": 900}, [TopKLogitsWarper(900)]),
        ({"top_p": 0.05}, [TopPLogitsWarper(0.05)]),
        ({"top_p": 0.5}, [TopPLogitsWarper(0.5)]),
        ({"top_p": 0.95}, [TopPLogitsWarper(0.95)]),
        ({"min_p": 0.1}, [MinPLogitsWarper(0.1)]),
        ({"top_p": 0.7, "temperature": 2.5}, [TemperatureLogitsWarper(2.5), TopPLogitsWarper(0.7)]),
        (
            {"temperature": 0.7, "min_p": 0.02, "top_k": 50, "top_p": 0.8},
            [TemperatureLogitsWarper(0.7), MinPLogitsWarper(0.02), TopKLogitsWarper(50), TopPLogitsWarper(0.8)],
        ),
    ],
    ids=str,
)
def test_the_tokens_left_are_those_of_transformers(vocab, scale, values, warpers):
    for logits in random_rows(4, vocab, scale, seed=vocab):
        assert set(probabilities(logits, **values)) == support(warpers, logits)


def test_top_p_is_exact_where_a_sort_of_everything_is():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        logits = np.round(random_rows(1, int(rng.integers(1, 4000)), float(rng.choice([0.05, 1, 6])), seed)[0], 1)
        top_p = float(rng.uniform(0.01, 0.999))
        order = np.argsort(-logits, kind="stable")
        shares = np.cumsum(softmax(logits)[order])
        expected = order[: int(np.searchsorted(shares, top_p)) + 1]
        assert set(probabilities(logits, top_p=top_p)) == set(expected.tolist())


@pytest.mark.parametrize("values", [{"top_k": 3}, {"top_p": 0.5}, {"top_k": 4, "top_p": 0.75}], ids=str)
def test_of_equal_logits_the_lower_ids_stay(values):
    assert sorted(probabilities(row(0, 1, 1, 1, 1, 1), **values)) == [1, 2, 3]


def test_top_k_one_is_the_greedy_choice():
    logits = np.round(random_rows(1, 20_000)[0])
    assert probabilities(logits, top_k=1) == {int(logits.argmax()): 1.0}


def test_a_filter_always_leaves_a_token():
    for values in ({"top_p": 1e-12}, {"min_p": 1.0}, {"temperature": 1e-5}):
        assert probabilities(row(1, 5, 3), **values) == {1: 1.0}


# Penalties and masks


def adjusted(logits: np.ndarray, **values) -> np.ndarray:
    return state(**values).adjuster.apply(logits)


@pytest.mark.parametrize("penalty", [1.3, 0.8])
def test_repetition_penalty_is_that_of_transformers(penalty):
    prompt, output = [3, 1, 3, 9], (4, 3, 70)
    for logits in random_rows(5, 100):
        expected = RepetitionPenaltyLogitsProcessor(penalty)(
            torch.tensor([[*prompt, *output]]), torch.from_numpy(logits[None].copy())
        )
        got = adjusted(logits, prompt=prompt, output=output, repetition_penalty=penalty)
        np.testing.assert_array_equal(got, expected[0].numpy())


def test_frequency_and_presence_penalties_are_over_the_output():
    got = adjusted(row(1, 1, 1, 1), prompt=[0, 1], output=(1, 2, 2), frequency_penalty=0.5, presence_penalty=0.25)
    np.testing.assert_array_equal(got, row(1, 0.25, -0.25, 1))


def test_repetition_comes_before_frequency_and_after_bias():
    got = adjusted(row(1, 1), output=(0,), repetition_penalty=2, frequency_penalty=1, logit_bias={0: 3})
    np.testing.assert_array_equal(got, row(1, 1))


def test_counts_kept_token_by_token_equal_counts_made_at_once():
    output = tuple(np.random.default_rng(0).integers(0, 300, 500).tolist())
    got = adjusted(np.zeros(300, np.float32), prompt=list(range(20)), output=output, frequency_penalty=0.5)
    np.testing.assert_array_equal(got, (-0.5 * np.bincount(output, minlength=300)).astype(np.float32))


def test_only_allowed_tokens_remain():
    np.testing.assert_array_equal(adjusted(row(1, 2, 3), allowed_token_ids=[0, 2]), row(1, -INF, 3))


def test_logit_bias_is_added():
    np.testing.assert_array_equal(adjusted(row(1, 2, 3), logit_bias={0: 5, 2: -100}), row(6, 2, -97))


def test_end_and_stop_tokens_are_kept_out_before_min_tokens():
    values = {"eos": (2,), "min_tokens": 2, "stop_token_ids": [0], "temperature": 0}
    np.testing.assert_array_equal(adjusted(row(1, 2, 3), **values), row(-INF, 2, -INF))
    np.testing.assert_array_equal(adjusted(row(1, 2, 3), output=(1,), **values), row(-INF, 2, -INF))
    for more in ({}, {"logit_bias": {1: 0.5}}):
        sampler, made = Sampler(0), state(**values, **more)
        assert [sampler.sample(row(1, 2, 3), made).token_id for _ in range(4)] == [1, 1, 2, 2]


def bad_words(*words: str) -> tuple[Sampler, object]:
    sampler = Sampler(0, FakeTokenizer())
    return sampler, sampler.state("r", SamplingParams(temperature=0, bad_words=words))


def test_the_last_token_of_a_bad_word_is_kept_out_where_it_would_complete_it():
    sampler, made = bad_words("abc")
    logits = np.zeros(52, np.float32)
    chosen = []
    for wanted in (2, 0, 1, 2):
        logits[:] = 0
        logits[wanted], logits[51] = 2, 1
        chosen.append(sampler.sample(logits, made).token_id)
    assert chosen == [2, 0, 1, 51]


def test_a_bad_word_is_kept_out_after_a_space_too():
    _, made = bad_words("ab", "d")
    made.adjuster.append(26)
    forbidden = np.flatnonzero(made.adjuster.apply(np.zeros(52, np.float32)) == -INF)
    assert forbidden.tolist() == [1, 3, 29]


def test_bad_words_need_a_tokenizer():
    with pytest.raises(RequestError) as caught:
        Sampler(0).state("r", SamplingParams(bad_words=["ab"]))
    assert str(caught.value) == "bad_words needs a tokenizer, and the engine has none; got bad_words=['ab']"


def test_a_bad_word_needs_a_token():
    with pytest.raises(RequestError) as caught:
        bad_words(" ")
    assert str(caught.value) == "bad_words must hold texts of at least one token, got ' '"


# Greedy, batches, seeds


def test_greedy_takes_the_lowest_of_equal_ids():
    logits = np.stack([row(1, 3, 3), row(2, 2, 2)])
    sampler = Sampler(0)
    assert [s.token_id for s in sampler.sample_batch(logits, [state(temperature=0), state(temperature=0)])] == [1, 0]
    assert sampler.sample(logits[0], state(temperature=0, logprobs=1)).token_id == 1
    assert distribution(logits[0], state(temperature=0))[0].tolist() == [1]


def test_a_greedy_batch_keeps_to_what_each_request_asks():
    asked = [{}, {"logprobs": 1}, {"logit_bias": {0: 5.0}}, {"min_tokens": 1, "stop_token_ids": [2]}]
    sampler = Sampler(0)
    for values in asked:
        states = [state(temperature=0, **values) for _ in range(2)]
        batch = sampler.sample_batch(np.stack([row(1, 2, 3)] * 2), states)
        assert batch == [sampler.sample(row(1, 2, 3), state(temperature=0, **values))] * 2
        assert [made.adjuster.output_length for made in states] == [1, 1]
    assert [sampler.sample(row(1, 2, 3), state(temperature=0, **values)).token_id for values in asked] == [2, 2, 0, 1]


MIXED = [
    {"temperature": 0},
    {"seed": 1},
    {"seed": 2, "temperature": 0.6, "top_p": 0.9},
    {"seed": 3, "top_k": 20, "min_p": 0.01, "logprobs": 3},
    {"temperature": 0, "repetition_penalty": 1.2, "logprobs": 0},
    {"seed": 4, "frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {5: 2.0}},
    {"seed": -5, "min_tokens": 6, "stop_token_ids": [1, 2]},
]


def test_tokens_and_logprobs_do_not_depend_on_the_batch():
    steps = [random_rows(len(MIXED), 1237, seed=step) for step in range(12)]

    def run(order: list[int], batched: bool) -> dict[int, list]:
        sampler = Sampler(9)
        states = {i: sampler.state(str(i), SamplingParams(**MIXED[i]), [7, 8, 9]) for i in order}
        results: dict[int, list] = {i: [] for i in order}
        for logits in steps:
            if batched:
                sampled = sampler.sample_batch(np.ascontiguousarray(logits[order]), [states[i] for i in order])
            else:
                sampled = [sampler.sample(logits[i].copy(), states[i]) for i in order]
            for i, each in zip(order, sampled, strict=True):
                results[i].append(each)
        return results

    alone = {i: run([i], batched=False)[i] for i in range(len(MIXED))}
    assert run(list(range(len(MIXED))), batched=True) == alone
    assert run(list(reversed(range(len(MIXED)))), batched=True) == alone
    assert run([4, 2], batched=True) == {4: alone[4], 2: alone[2]}
    assert len({each.token_id for each in alone[1]}) > 6


def tokens(sampler: Sampler, index: int = 0, **values) -> list[int]:
    made = sampler.state("r", SamplingParams(**values), index=index)
    return [sampler.sample(logits, made).token_id for logits in np.zeros((20, 1000), np.float32)]


def test_a_seeded_request_does_not_depend_on_the_engine():
    assert tokens(Sampler(0), seed=5) == tokens(Sampler(1), seed=5)
    assert tokens(Sampler(0), seed=5) != tokens(Sampler(0), seed=6)


def test_sequences_of_one_seeded_request_differ_and_are_those_of_the_next_seeds():
    assert tokens(Sampler(0), index=2, seed=5) == tokens(Sampler(0), seed=7) != tokens(Sampler(0), seed=5)


def test_requests_without_a_seed_follow_the_engine_s_in_order_of_arrival():
    first, second = Sampler(3), Sampler(3)
    a, b = tokens(first), tokens(first)
    assert a != b
    assert [tokens(second), tokens(second)] == [a, b]
    assert tokens(Sampler(4)) != a
    assert tokens(Sampler(None)) != tokens(Sampler(None))


def test_one_random_number_a_token():
    sampler, made = Sampler(0), state(seed=5, top_p=0.9)
    for logits in random_rows(6, 50):
        sampler.sample(logits, made)
    reference = np.random.Generator(np.random.Philox(5))
    reference.random(6)
    assert made.generator.random() == reference.random()


def test_logits_are_left_unchanged():
    logits = random_rows(2, 300)
    before = logits.copy()
    values = {"repetition_penalty": 1.5, "logit_bias": {1: 5.0}, "min_tokens": 3, "stop_token_ids": [4]}
    Sampler(0).sample_batch(logits, [state(prompt=[1, 2], **values), state(top_p=0.5, logprobs=2)])
    np.testing.assert_array_equal(logits, before)


def test_logprobs_are_of_the_raw_logits_with_text():
    sampler = Sampler(0, FakeTokenizer())
    logits = np.zeros(60, np.float32)
    logits[[3, 55]] = 5, 4
    made = sampler.state("r", SamplingParams(temperature=0, logit_bias={1: 50}, logprobs=2))
    sampled = sampler.sample(logits, made)
    shares = np.log(softmax(logits))
    assert sampled.token_id == 1
    assert list(sampled.logprobs) == [1, 3, 55]
    assert [entry.rank for entry in sampled.logprobs.values()] == [60, 1, 2]
    assert [entry.decoded_token for entry in sampled.logprobs.values()] == ["b", "d", None]
    assert [entry.logprob for entry in sampled.logprobs.values()] == pytest.approx(
        shares[[1, 3, 55]].tolist(), abs=1e-6
    )


def test_no_logprobs_unless_asked():
    assert Sampler(0).sample(row(1, 2), state()).logprobs is None


# What cannot be sampled


@pytest.mark.parametrize("values", [{"temperature": 0}, {"temperature": 0, "logprobs": 1}, {}, {"top_p": 0.5}], ids=str)
@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (row(0, float("nan"), 1), "hold NaN, first at token 1 of 3"),
        (row(0, 2, INF), "hold inf, first at token 2 of 3"),
        (row(-INF, -INF, -INF), "are all -inf"),
    ],
    ids=["nan", "inf", "-inf"],
)
def test_damaged_logits_name_the_request_and_change_nothing(values, bad, found):
    sampler = Sampler(0)
    good = sampler.state("good", SamplingParams(**values, min_tokens=0))
    broken = sampler.state("broken", SamplingParams(**values))
    with pytest.raises(SamplingError) as caught:
        sampler.sample_batch(np.stack([row(1, 2, 3), bad]), [good, broken])
    assert str(caught.value) == (
        f"the logits of request 'broken' {found}: the weights are damaged or the computation overflowed. "
        "Run the request on the reference backend, or in float32, to tell which."
    )
    assert isinstance(caught.value, ModelHostError)
    assert caught.value.request_id == "broken"
    assert good.adjuster.output_length == 0


@pytest.mark.parametrize("temperature", [0, 1])
def test_no_token_left(temperature):
    made = state(allowed_token_ids=[1], min_tokens=1, eos=(1,), temperature=temperature)
    with pytest.raises(SamplingError) as caught:
        Sampler(0).sample(row(1, 2), made)
    assert str(caught.value) == (
        "request 'r' has no token left to sample: its allowed_token_ids, bad_words and min_tokens and the model's own "
        "-inf logits together rule out every token. Loosen one of them."
    )


def test_a_penalty_out_of_range():
    with pytest.raises(SamplingError) as caught:
        Sampler(0).sample(row(1, 2), state(prompt=[1], repetition_penalty=1e-60))
    assert str(caught.value) == (
        "request 'r' has a repetition_penalty, 1e-60, that takes logits out of float32's range."
    )


@pytest.mark.parametrize("shape", [(2, 5), (5,)])
def test_shapes_must_fit(shape):
    with pytest.raises(ValueError, match=r"^logits of shape \[.*5\] do not fit 1 sequences$"):
        Sampler(0).sample_batch(np.zeros(shape, np.float32), [state()])


def test_no_sequences():
    assert Sampler(0).sample_batch(np.zeros((0, 5), np.float32), []) == []
