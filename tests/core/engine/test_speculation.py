"""Speculation never changes an answer, whatever is proposed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from modelhost import LLM, SamplingParams
from modelhost.api import ConfigError, PluginError
from modelhost.api.speculator import Draft
from modelhost.engine.speculation import _accept_or_replace

from .simulated import VOCAB, continuation, simulated_engine

GROUPS = [{}, {"window": 5}, {"slots": 12}, {"slots": 12, "window": 5}]
SPECULATION = {"method": "test", "num_speculative_tokens": 4}


class Proposes:
    """Proposes the right continuation with some tokens spoilt.

    Attributes:
        finished: requests whose end was told.
    """

    def __init__(self, right: float, seed: int = 0, **wrong):
        self.rng = random.Random(seed)
        self.right = right
        self.finished = []

    def propose(self, sequences):
        return [self.draft(sequence) for sequence in sequences]

    def draft(self, sequence):
        tokens = continuation(sequence.token_ids, sequence.count)
        return Draft([t if self.rng.random() < self.right else self.rng.randrange(VOCAB) for t in tokens])

    def finish(self, request_id):
        self.finished.append(request_id)


def run_all(engine) -> dict[str, list[int]]:
    finished = {}
    while engine.busy:
        finished |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
    return finished


@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("right", [1.0, 0.7, 0.0])
@pytest.mark.parametrize(
    "more", [{}, {"blocks": 20, "max_num_batched_tokens": 9, "max_num_seqs": 5}], ids=["", "tight"]
)
def test_answers_are_those_without_speculation(groups, right, more):
    engine, _ = simulated_engine(speculator=Proposes(right), speculative_config=SPECULATION, **groups, **more)
    rng = random.Random(1)
    prompts = {str(i): [rng.randrange(VOCAB) for _ in range(rng.randint(1, 18))] for i in range(12)}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=17))
    assert run_all(engine) == {name: continuation(prompt, 17) for name, prompt in prompts.items()}
    assert engine.scheduler.cache.usage() == 0.0


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_right_drafts_save_steps(groups):
    engine, executable = simulated_engine(speculator=Proposes(1.0), speculative_config=SPECULATION, **groups)
    engine.add_request("a", [1, 2, 3], SamplingParams(temperature=0, max_tokens=21))
    run_all(engine)
    assert len(executable.steps) == 1 + 4
    assert engine.speculation.accepted == engine.speculation.proposed == 16


def test_drafts_are_of_generated_tokens():
    engine, executable = simulated_engine(speculator=Proposes(0.5), speculative_config=SPECULATION)
    engine.add_request("a", [1, 2, 3], SamplingParams(temperature=0, max_tokens=21))
    run_all(engine)
    (_, first), *others = executable.origins
    assert first == [0, 0, 0]
    assert max(len(generated) for _, generated in others) == 5
    assert all(set(generated) == {1} for _, generated in others)


def test_sampled_tokens_are_those_without_speculation():
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=20, logprobs=2)
    results = []
    for extra in ({}, {"speculator": Proposes(0.5), "speculative_config": SPECULATION}):
        engine, _ = simulated_engine(**extra)
        engine.add_request("a", [1, 2, 3], params)
        last = []
        while engine.busy:
            last = engine.step() or last
        results.append((last[0].outputs[0].token_ids, last[0].outputs[0].logprobs))
    assert results[0] == results[1]


def test_penalties_see_accepted_tokens():
    params = SamplingParams(temperature=0, max_tokens=30, repetition_penalty=1.5, presence_penalty=0.5)
    answers = []
    for extra in ({}, {"speculator": Proposes(0.8), "speculative_config": SPECULATION}):
        engine, _ = simulated_engine(**extra)
        engine.add_request("a", [1, 2, 3], params)
        answers.append(run_all(engine))
    assert answers[0] == answers[1]


def test_the_end_of_an_answer_within_a_draft_cuts_it():
    prompt = [3, 1, 4]
    expected = continuation(prompt, 30)
    end = expected[6]
    engine, _ = simulated_engine(speculator=Proposes(1.0), speculative_config=SPECULATION, eos=(end,))
    engine.add_request("a", prompt, SamplingParams(temperature=0, max_tokens=30))
    assert run_all(engine)["a"] == expected[: expected.index(end) + 1]


def test_the_context_and_the_length_bound_a_draft():
    engine, _ = simulated_engine(speculator=Proposes(1.0), speculative_config=SPECULATION, max_model_len=16)
    engine.add_request("a", [1] * 9, SamplingParams(temperature=0, max_tokens=100))
    engine.add_request("b", [2] * 3, SamplingParams(temperature=0, max_tokens=2))
    answers = run_all(engine)
    assert (len(answers["a"]), len(answers["b"])) == (7, 2)


def test_tokens_outside_the_vocabulary_end_a_draft():
    class Wild(Proposes):
        def draft(self, sequence):
            return Draft([*continuation(sequence.token_ids, 1), VOCAB, -1][: sequence.count])

    engine, _ = simulated_engine(speculator=Wild(1.0), speculative_config=SPECULATION)
    engine.add_request("a", [1, 2], SamplingParams(temperature=0, max_tokens=9))
    assert run_all(engine)["a"] == continuation([1, 2], 9)


def test_the_speculator_is_told_when_a_sequence_is_over():
    speculator = Proposes(1.0)
    engine, _ = simulated_engine(speculator=speculator, speculative_config=SPECULATION)
    for name in "ab":
        engine.add_request(name, [1, 2], SamplingParams(temperature=0, max_tokens=9))
    engine.step()
    engine.abort("a")
    run_all(engine)
    assert speculator.finished == ["a/0", "b/0"]


def test_a_draft_too_few_is_an_error_that_names_the_speculator():
    class Forgetful(Proposes):
        def propose(self, sequences):
            return []

    engine, _ = simulated_engine(speculator=Forgetful(1.0), speculative_config=SPECULATION)
    engine.add_request("a", [1, 2], SamplingParams(temperature=0, max_tokens=9))
    engine.step()
    with pytest.raises(PluginError, match=r"^speculator Forgetful returned 0 drafts for 1 sequences$"):
        engine.step()


def test_a_drawn_token_is_replaced_so_that_the_distribution_is_the_models():
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
    generator = np.random.default_rng(0)
    drawn = generator.choice(4, size=40_000, p=q)
    counts = np.bincount([_accept_or_replace(p, q, token, generator) for token in drawn], minlength=4)
    assert counts[3] == 0
    chi_square = (((counts - p * 40_000) ** 2)[:3] / (p * 40_000)[:3]).sum()
    assert chi_square < 13.8  # 0.1 % quantile at two degrees of freedom


def test_ngram_on_a_real_engine_changes_nothing(tiny_model):
    prompts = ["abcabcabcabc", "a b a b a b", "xyz"]
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True, logprobs=1)
    plain = LLM(tiny_model, backend="reference").generate(prompts, params)
    llm = LLM(tiny_model, backend="reference", speculative_config={"method": "ngram", "prompt_lookup_min": 1})
    ahead = llm.generate(prompts, params)
    assert [o.outputs[0].token_ids for o in ahead] == [o.outputs[0].token_ids for o in plain]
    assert [o.outputs[0].logprobs for o in ahead] == [o.outputs[0].logprobs for o in plain]
    assert llm.model.engine.speculation.accepted > 0


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ({"method": "ngrm"}, PluginError, "ngram"),
        ({"method": "ngram", "lookup": 3}, ConfigError, "unknown key speculative_config.lookup"),
        (
            {"method": "ngram", "prompt_lookup_max": 0},
            ConfigError,
            "speculative_config.prompt_lookup_max: Input should be",
        ),
        ({"num_speculative_tokens": 3}, ConfigError, "speculative_config.method: Field required"),
        ({"method": "ngram", "num_speculative_tokens": 0}, ConfigError, "speculative_config.num_speculative_tokens"),
    ],
)
def test_settings_that_are_refused(tiny_model, config, kind, message):
    with pytest.raises(kind) as error:
        LLM(tiny_model, backend="reference", speculative_config=config).generate("a")
    assert message in str(error.value)
