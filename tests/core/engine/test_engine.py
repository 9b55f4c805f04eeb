from __future__ import annotations

import random

import pytest

from modelhost import SamplingParams
from modelhost.api import RequestError

from .simulated import VOCAB, continuation, simulated_engine


def run_all(engine, *, limit: int = 10_000) -> dict[str, list[int]]:
    """Step until idle; tokens by request."""
    finished = {}
    while engine.busy:
        assert limit > 0, "the engine does not come to an end"
        limit -= 1
        finished |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
    return finished


def greedy(count: int, **fields) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=count, **fields)


def prompts(count: int, seed: int = 0, longest: int = 20) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(VOCAB) for _ in range(rng.randint(1, longest))] for _ in range(count)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_num_seqs": 1},
        {"max_num_batched_tokens": 7, "max_num_seqs": 5},
        {"blocks": 16},
        {"blocks": 16, "max_num_batched_tokens": 6, "max_num_seqs": 6},
        {"blocks": 20, "window": 5},
        {"window": 3, "max_num_batched_tokens": 4, "max_num_seqs": 4},
        {"block_size": 1, "blocks": 64},
        {"slots": 20},
        {"slots": 8, "blocks": 16, "max_num_batched_tokens": 9},
        {"slots": 3, "window": 5, "blocks": 30},
        {"enable_prefix_caching": False, "slots": 8, "blocks": 20},
    ],
    ids=lambda settings: ",".join(f"{k}={v}" for k, v in settings.items()) or "default",
)
def test_every_request_gets_its_own_continuation(settings):
    engine, _ = simulated_engine(**{"max_num_seqs": 8, **settings})
    given = prompts(25)
    for index, prompt in enumerate(given):
        engine.add_request(str(index), prompt, greedy(12))
    assert run_all(engine) == {str(index): continuation(prompt, 12) for index, prompt in enumerate(given)}


def test_preemption_happens_and_changes_nothing():
    engine, _ = simulated_engine(blocks=16, max_num_seqs=8)
    given = prompts(8, longest=12)
    for index, prompt in enumerate(given):
        engine.add_request(str(index), prompt, greedy(40))
    assert run_all(engine) == {str(index): continuation(prompt, 40) for index, prompt in enumerate(given)}
    assert engine.scheduler.preemptions > 0


def test_tokens_keep_their_origin_when_they_are_computed_again():
    engine, executable = simulated_engine(blocks=16, max_num_seqs=8, enable_prefix_caching=False)
    lengths = {}
    for index, prompt in enumerate(prompts(8, longest=12)):
        lengths[index] = 1 + len(prompt)
        engine.add_request(str(index), [index, *prompt], greedy(40))
    run_all(engine)
    assert engine.scheduler.preemptions > 0
    for tokens, generated in executable.origins:
        positions = range(len(tokens) - len(generated), len(tokens))
        assert generated == [position >= lengths[tokens[0]] for position in positions]
    assert any(set(generated) == {0, 1} for _, generated in executable.origins)


def test_all_blocks_come_back():
    engine, _ = simulated_engine(blocks=16, window=5, max_num_seqs=8)
    for index, prompt in enumerate(prompts(20)):
        engine.add_request(str(index), prompt, greedy(20))
    engine.step()
    engine.abort("3")
    run_all(engine)
    assert engine.scheduler.cache.usage() == 0.0


def test_a_sliding_group_needs_only_the_blocks_of_its_window():
    engine, _ = simulated_engine(blocks=16, window=4, max_model_len=64)
    engine.add_request("a", [1], greedy(60))
    most = 0
    while engine.busy:
        engine.step()
        cache = engine.scheduler.cache
        if engine.busy:
            most = max(most, sum(block != 0 for block in cache.block_table("sliding_4", "a/0")))
    assert most <= 2


def test_the_budget_of_tokens_is_kept_and_shared():
    engine, executable = simulated_engine(max_num_batched_tokens=10, max_num_seqs=4)
    for index in range(4):
        engine.add_request(str(index), [1] * 15, greedy(5))
    run_all(engine)
    assert max(executable.steps) == 10
    assert executable.most_sequences > 1


def test_sequences_beyond_the_limit_wait():
    engine, executable = simulated_engine(max_num_seqs=3)
    for index in range(9):
        engine.add_request(str(index), [index], greedy(5))
    run_all(engine)
    assert executable.most_sequences == 3


def test_first_come_first_served():
    engine, _ = simulated_engine(max_num_seqs=1)
    for name in "abc":
        engine.add_request(name, [1, 2], greedy(2), priority={"a": 3, "b": 2, "c": 1}[name])
    assert list(run_all(engine)) == ["a", "b", "c"]


def test_lower_priority_values_go_first_under_the_priority_policy():
    engine, _ = simulated_engine(max_num_seqs=1, scheduling_policy="priority")
    for name in "abc":
        engine.add_request(name, [1, 2], greedy(2), priority={"a": 3, "b": 2, "c": 1}[name])
    assert list(run_all(engine)) == ["c", "b", "a"]


def test_end_of_sequence_stops():
    prompt = [3, 1, 4]
    expected = continuation(prompt, 30)
    end = expected[6]
    cut = expected[: expected.index(end) + 1]
    engine, _ = simulated_engine(eos=(end,))
    engine.add_request("a", prompt, greedy(30))
    outputs = []
    while engine.busy:
        outputs = engine.step()
    answer = outputs[0].outputs[0]
    assert (answer.token_ids, answer.finish_reason, answer.stop_reason) == (cut, "stop", None)


def test_the_context_ends_an_answer():
    engine, _ = simulated_engine(max_model_len=16)
    engine.add_request("a", [1] * 10, greedy(100))
    answers = []
    while engine.busy:
        answers = engine.step()
    answer = answers[0].outputs[0]
    assert (len(answer.token_ids), answer.finish_reason) == (6, "length")


def test_several_answers_to_one_prompt():
    engine, _ = simulated_engine()
    engine.add_request("a", [1, 2, 3], SamplingParams(n=3, max_tokens=4, temperature=1.0, seed=1))
    last = None
    while engine.busy:
        for last in engine.step():
            assert [answer.index for answer in last.outputs] == [0, 1, 2]
    assert last is not None
    assert last.finished
    assert [len(answer.token_ids) for answer in last.outputs] == [4, 4, 4]
    assert len({tuple(answer.token_ids) for answer in last.outputs}) == 3


def test_abort_gives_the_last_output_and_frees_the_request():
    engine, _ = simulated_engine()
    engine.add_request("a", [1, 2, 3], greedy(50))
    engine.step()
    output = engine.abort("a")
    assert output is not None
    assert (output.outputs[0].finish_reason, len(output.outputs[0].token_ids)) == ("abort", 1)
    assert not engine.busy
    assert engine.abort("a") is None


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "the prompt is empty; give at least one token"),
        (
            [1] * 64,
            "the prompt has 64 tokens and the context holds 64, so no room is left for an answer; "
            "shorten the prompt or load the model with a larger max_model_len",
        ),
        ([1, VOCAB], f"prompt token {VOCAB} is outside the vocabulary of {VOCAB} tokens"),
        ([-1], f"prompt token -1 is outside the vocabulary of {VOCAB} tokens"),
    ],
)
def test_prompts_that_are_refused(tokens, message):
    engine, _ = simulated_engine()
    with pytest.raises(RequestError) as error:
        engine.add_request("a", tokens, greedy(1))
    assert str(error.value) == message
    assert not engine.busy


def test_a_request_id_can_be_used_once_at_a_time():
    engine, _ = simulated_engine()
    engine.add_request("a", [1], greedy(1))
    with pytest.raises(RequestError, match=r"^request id 'a' is in use by an unfinished request$"):
        engine.add_request("a", [1], greedy(1))
    run_all(engine)
    engine.add_request("a", [1], greedy(1))


def test_prompt_logprobs_are_whole_however_the_prompt_is_cut():
    whole, _ = simulated_engine()
    cut, _ = simulated_engine(max_num_batched_tokens=3, max_num_seqs=2)
    results = []
    for engine in (whole, cut):
        engine.add_request("a", [5, 6, 7, 8, 9, 10, 11], greedy(2, prompt_logprobs=2))
        outputs = []
        while engine.busy:
            outputs = engine.step() or outputs
        results.append(outputs[0].prompt_logprobs)
    assert results[0] == results[1]
    assert results[0][0] is None
    assert [next(iter(entry)) for entry in results[0][1:]] == [6, 7, 8, 9, 10, 11]


def test_logprobs_of_sampled_tokens():
    engine, _ = simulated_engine()
    engine.add_request("a", [5, 6, 7], greedy(3, logprobs=1))
    outputs = []
    while engine.busy:
        outputs = engine.step()
    answer = outputs[0].outputs[0]
    assert [list(entry) for entry in answer.logprobs] == [[token] for token in answer.token_ids]
    assert answer.cumulative_logprob == pytest.approx(
        sum(e[t].logprob for e, t in zip(answer.logprobs, answer.token_ids, strict=True))
    )
