from __future__ import annotations

import numpy as np
import pytest
import torch

from modelhost.engine.logit_ops import top_ids
from modelhost.engine.logprobs import Logprob, log_normalizer, top_logprobs

INF = float("inf")


def random_row(vocab: int, scale: float = 4.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(vocab) * scale).astype(np.float32)


@pytest.mark.parametrize("vocab", [1, 5, 1000, 50257])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_logprobs_are_those_of_torch(vocab, scale):
    logits = random_row(vocab, scale)
    expected = torch.log_softmax(torch.from_numpy(logits).double(), -1)
    values, indices = expected.topk(min(5, vocab))
    got = top_logprobs(logits, vocab // 2, 5)
    assert got[vocab // 2].logprob == pytest.approx(expected[vocab // 2].item(), abs=1e-6)
    best = sorted(got.items(), key=lambda item: item[1].rank)[: len(values)]
    assert [entry.logprob for _, entry in best] == pytest.approx(values.tolist(), abs=1e-6)
    if scale:
        assert [token for token, _ in best] == indices.tolist()


def test_the_token_comes_first_and_its_rank_counts_the_more_likely():
    got = top_logprobs(np.array([0, 4, 2, 3, 1], np.float32), 4, 2)
    assert list(got) == [4, 1, 3]
    assert [entry.rank for entry in got.values()] == [4, 1, 2]


def test_a_token_among_the_most_likely_is_there_once():
    got = top_logprobs(np.array([0, 4, 2, 3, 1], np.float32), 3, 2)
    assert list(got) == [3, 1]
    assert [entry.rank for entry in got.values()] == [2, 1]


def test_no_alternatives():
    assert list(top_logprobs(np.array([0, 4, 2], np.float32), 0, 0)) == [0]


@pytest.mark.parametrize("count", [-1, 3, 50])
def test_all_alternatives(count):
    got = top_logprobs(np.array([1, 0, 2], np.float32), 0, count)
    assert list(got) == [0, 2, 1]
    assert [entry.rank for entry in got.values()] == [2, 1, 3]
    assert np.exp([entry.logprob for entry in got.values()]).sum() == pytest.approx(1)


def test_the_rank_counts_equally_likely_tokens():
    logits = np.array([1, 1, 0, 1], np.float32)
    assert top_logprobs(logits, 0, 0)[0].rank == 3
    assert top_logprobs(logits, 3, 1)[3].rank == 3
    assert top_logprobs(logits, 0, 1)[0].rank == 1


def test_a_token_without_probability():
    got = top_logprobs(np.array([0, -INF], np.float32), 1, 1)
    assert got == {1: Logprob(-INF, 2), 0: Logprob(0.0, 1)}


def test_large_logits_do_not_overflow():
    assert log_normalizer(np.array([3e38, 3e38, -3e38], np.float32)) == pytest.approx(3e38)
    assert log_normalizer(np.full(262144, 90, np.float32)) == pytest.approx(90 + np.log(262144), abs=1e-6)


@pytest.mark.parametrize("vocab", [1, 7, 4096, 30_001, 262_144])
@pytest.mark.parametrize("count", [1, 2, 20, 600, 100_000])
@pytest.mark.parametrize("digits", [0, 4])
def test_top_ids_are_those_of_a_stable_sort(vocab, count, digits):
    values = np.round(random_row(vocab, seed=vocab + count), digits)
    values[:: max(1, vocab // 50)] = -INF
    np.testing.assert_array_equal(top_ids(values, count), np.argsort(-values, kind="stable")[:count])


def test_top_ids_fill_up_with_the_lowest_ids_of_equal_values():
    values = np.full(2000, -INF, np.float32)
    values[[1500, 700]] = 1, 2
    assert top_ids(values, 5).tolist() == [700, 1500, 0, 1, 2]
    assert top_ids(np.zeros(2000, np.float32), 3).tolist() == [0, 1, 2]
    assert top_ids(values, 0).size == 0
