"""What is to be measured, and the engine that it needs."""

from __future__ import annotations

import pytest

from modelhost.api import ConfigError
from modelhost.bench import DecodeTimes, Measurements, PrefillTimes, Workload, percentile

SMALL = Workload(prompt_lengths=(4, 16), contexts=(8, 24), batches=(1, 3), output_tokens=5, repetitions=2)


def test_prompts_are_the_same_random_tokens_every_time() -> None:
    prompts = SMALL.prompts(3, 20, 50)
    assert prompts == SMALL.prompts(3, 20, 50)
    assert [len(prompt) for prompt in prompts] == [20] * 3
    assert all(0 <= token < 50 for prompt in prompts for token in prompt)
    assert prompts[0] != prompts[1]
    assert Workload(seed=1).prompts(3, 20, 50) != prompts


def test_every_context_with_every_batch() -> None:
    assert list(SMALL.decodes) == [(8, 1), (8, 3), (24, 1), (24, 3)]


def test_engine_has_room_for_the_workload() -> None:
    config = SMALL.engine_config({"backend": "reference"})
    assert (config.max_num_seqs, config.enable_prefix_caching, config.backend) == (3, False, "reference")
    assert config.max_model_len is not None and config.max_model_len >= 24 + 5 + 1
    assert SMALL.engine_config({"max_num_seqs": 9, "max_model_len": 500}).max_num_seqs == 9
    assert SMALL.engine_config({"max_model_len": 500}).max_model_len == 500


def test_sequences_that_wait_for_others_have_room_to_go_on() -> None:
    in_one_step = SMALL.engine_config({}).max_model_len
    in_many = SMALL.engine_config({"max_num_batched_tokens": 6}).max_model_len
    assert in_one_step is not None and in_many is not None
    assert in_many >= in_one_step + 24 * 3 // 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_model_len": 20}, r"--max-model-len must be at least 3\d for these lengths, got 20"),
        ({"speculative_config": {"method": "ngram"}}, "speculation cannot be measured on random tokens"),
        ({"max_model_lenn": 20}, "max_model_lenn"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SMALL.engine_config(settings)


@pytest.mark.parametrize(("percent", "value"), [(0, 1.0), (50, 3.0), (75, 4.0), (90, 8.8), (100, 12.0)])
def test_percentile(percent: float, value: float) -> None:
    assert percentile([4.0, 1.0, 12.0, 3.0, 2.0], percent) == pytest.approx(value)


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_percentile_that_there_is_not(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, percent)


def test_rates_are_those_of_the_median_repetition() -> None:
    prefill = PrefillTimes(100, [0.5, 9.0, 0.4])
    assert (prefill.first_token_seconds, prefill.tokens_per_second) == (0.5, 200.0)
    decode = DecodeTimes(64, 8, [[0.1, 0.3], [5.0, 5.0], [0.1, 0.1]])
    assert decode.step_seconds == pytest.approx(0.2)
    assert decode.tokens_per_second == pytest.approx(40)
    assert decode.latency(100) == 5.0
    data = Measurements([prefill], [decode]).data()
    assert data["prefill"][0]["tokens_per_second"] == 200.0
    assert data["decode"][0]["token_latency_seconds"].keys() == {"p50", "p90", "p99"}
