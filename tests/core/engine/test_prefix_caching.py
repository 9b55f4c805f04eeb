from __future__ import annotations

import random

import pytest

from modelhost import SamplingParams

from .simulated import VOCAB, continuation, simulated_engine

GROUPS = [{}, {"window": 6}, {"slots": 12}, {"window": 6, "slots": 12}]
GROUPS += [{"strides": (2,)}, {"strides": (4, 8)}, {"strides": (2, 16), "window": 6, "slots": 12}]


def answer(engine, prompt, count=6, name="a", **fields):
    """The last output of one request."""
    engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=count, **fields))
    outputs = []
    while engine.busy:
        outputs = engine.step() or outputs
    assert outputs[0].outputs[0].token_ids == continuation(prompt, count)
    return outputs[0]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_the_same_prompt_again_starts_from_its_blocks(groups):
    engine, executable = simulated_engine(**groups)
    prompt = list(range(18))
    assert answer(engine, prompt).num_cached_tokens == 0
    executable.steps.clear()
    assert answer(engine, prompt).num_cached_tokens == 16
    assert executable.steps[0] == 2


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_one_token_is_always_computed(groups):
    engine, _ = simulated_engine(**groups)
    prompt = list(range(16))
    answer(engine, prompt)
    assert answer(engine, prompt).num_cached_tokens == 12


def test_a_longer_prompt_uses_what_is_the_same():
    engine, _ = simulated_engine()
    answer(engine, list(range(18)))
    assert answer(engine, [*range(10), 40, 41, 42, 43, 44]).num_cached_tokens == 8
    assert answer(engine, [49, *range(1, 18)]).num_cached_tokens == 0


def test_an_answer_is_used_as_the_prompt_of_the_next_turn():
    engine, _ = simulated_engine()
    prompt = list(range(10))
    output = answer(engine, prompt, count=9).outputs[0]
    assert answer(engine, [*prompt, *output.token_ids, 3, 4]).num_cached_tokens == 16


def test_a_sliding_window_needs_only_its_own_blocks():
    engine, _ = simulated_engine(window=4, blocks=10, max_model_len=40)
    prompt = list(range(30))
    answer(engine, prompt)
    assert answer(engine, prompt).num_cached_tokens == 28


def test_a_state_is_found_only_where_a_step_ended():
    engine, _ = simulated_engine(slots=12)
    answer(engine, list(range(18)))
    assert answer(engine, [*range(10), 40, 41]).num_cached_tokens == 0
    assert answer(engine, [*range(17), 40, 41]).num_cached_tokens == 16


def test_a_long_answer_does_not_push_out_the_state_at_the_end_of_its_prompt():
    engine, _ = simulated_engine(slots=4)
    prompt = list(range(18))
    output = answer(engine, prompt, count=40).outputs[0]
    assert answer(engine, prompt).num_cached_tokens == 16
    output = answer(engine, prompt, count=40).outputs[0]
    assert answer(engine, [*prompt, *output.token_ids]).num_cached_tokens == 56


def test_old_blocks_give_way_to_new_ones():
    engine, _ = simulated_engine(blocks=10)
    first = list(range(18))
    answer(engine, first)
    for start in (20, 30, 40):
        answer(engine, [start + index % 10 for index in range(30)])
    assert answer(engine, first).num_cached_tokens == 0


def test_it_can_be_switched_off():
    engine, _ = simulated_engine(enable_prefix_caching=False)
    answer(engine, list(range(18)))
    assert answer(engine, list(range(18))).num_cached_tokens == 0


def test_prompt_logprobs_need_the_whole_prompt():
    engine, _ = simulated_engine()
    answer(engine, list(range(18)))
    output = answer(engine, list(range(18)), prompt_logprobs=0)
    assert output.num_cached_tokens == 0
    assert output.prompt_logprobs is not None
    assert len(output.prompt_logprobs) == 18


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_random_requests_with_common_beginnings(groups, seed):
    """Prompts that share beginnings, little memory, arrivals and aborts at random: every answer is right."""
    rng = random.Random(seed)
    engine, _ = simulated_engine(blocks=24, max_num_seqs=4, max_num_batched_tokens=rng.choice([5, 16, 64]), **groups)
    stems = [[rng.randrange(VOCAB) for _ in range(20)] for _ in range(3)]
    waiting = {
        str(index): [
            *rng.choice(stems)[: rng.randrange(1, 20)],
            *(rng.randrange(VOCAB) for _ in range(rng.randrange(4))),
        ]
        for index in range(40)
    }
    expected = {name: continuation(prompt, 10) for name, prompt in waiting.items()}
    finished, aborted = {}, set()
    pending = list(waiting)
    while pending or engine.busy:
        if pending and rng.random() < 0.5:
            name = pending.pop()
            engine.add_request(name, waiting[name], SamplingParams(temperature=0, max_tokens=10))
        if rng.random() < 0.05 and (running := engine.scheduler.running):
            name = rng.choice(running).id.split("/")[0]
            engine.abort(name)
            aborted.add(name)
        finished |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
    assert finished == {name: tokens for name, tokens in expected.items() if name not in aborted}
    assert engine.scheduler.cache.usage() == 0.0
