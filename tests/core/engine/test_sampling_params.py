from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

from modelhost.api import ModelHostError, RequestError
from modelhost.engine.sampling_params import SamplingParams

VLLM_DEFAULTS = {
    "n": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "seed": None,
    "stop": None,
    "stop_token_ids": None,
    "include_stop_str_in_output": False,
    "ignore_eos": False,
    "max_tokens": 16,
    "min_tokens": 0,
    "logprobs": None,
    "prompt_logprobs": None,
    "logit_bias": None,
    "bad_words": None,
    "allowed_token_ids": None,
    "detokenize": True,
    "skip_special_tokens": True,
}


def test_names_and_defaults_are_vllm_s():
    parameters = inspect.signature(SamplingParams.__init__).parameters
    assert {name: p.default for name, p in parameters.items() if name != "self"} == VLLM_DEFAULTS


@pytest.mark.parametrize(
    "values",
    [
        {"n": 16384},
        {"temperature": 0},
        {"temperature": 100},
        {"top_p": 1},
        {"top_p": 1e-9},
        {"top_k": -1},
        {"top_k": np.int64(40)},
        {"min_p": 0},
        {"min_p": np.float32(1)},
        {"repetition_penalty": 0.001},
        {"presence_penalty": -2, "frequency_penalty": 2},
        {"seed": -(2**63)},
        {"seed": 2**64 - 1},
        {"max_tokens": None, "min_tokens": 1000},
        {"max_tokens": 1, "min_tokens": 1},
        {"logprobs": -1, "prompt_logprobs": 0},
        {"logit_bias": {}},
        {"stop": [], "detokenize": False},
    ],
    ids=str,
)
def test_limits_are_allowed(values):
    params = SamplingParams(**values)
    for name, value in values.items():
        assert getattr(params, name) == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n": 0}, "n must be an integer in [1, 16384], got 0"),
        ({"n": 16385}, "n must be an integer in [1, 16384], got 16385"),
        ({"n": 1.0}, "n must be an integer in [1, 16384], got 1.0"),
        ({"n": True}, "n must be an integer in [1, 16384], got True"),
        ({"n": None}, "n must be an integer in [1, 16384], got None"),
        ({"temperature": -0.1}, "temperature must be a number in [0, 100] (0 for greedy), got -0.1"),
        ({"temperature": 101}, "temperature must be a number in [0, 100] (0 for greedy), got 101"),
        ({"temperature": float("nan")}, "temperature must be a number in [0, 100] (0 for greedy), got nan"),
        ({"temperature": float("inf")}, "temperature must be a number in [0, 100] (0 for greedy), got inf"),
        ({"temperature": "hot"}, "temperature must be a number in [0, 100] (0 for greedy), got 'hot'"),
        ({"temperature": False}, "temperature must be a number in [0, 100] (0 for greedy), got False"),
        ({"top_p": 0}, "top_p must be a number in (0, 1], got 0"),
        ({"top_p": 1.01}, "top_p must be a number in (0, 1], got 1.01"),
        ({"top_k": -2}, "top_k must be an integer >= -1 (0 or -1 for all tokens), got -2"),
        ({"top_k": 5.5}, "top_k must be an integer >= -1 (0 or -1 for all tokens), got 5.5"),
        ({"min_p": -0.5}, "min_p must be a number in [0, 1], got -0.5"),
        ({"min_p": 2}, "min_p must be a number in [0, 1], got 2"),
        ({"repetition_penalty": 0}, "repetition_penalty must be a number in (0, 100], got 0"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty must be a number in (0, 100], got inf"),
        ({"presence_penalty": 2.5}, "presence_penalty must be a number in [-2, 2], got 2.5"),
        ({"frequency_penalty": -3}, "frequency_penalty must be a number in [-2, 2], got -3"),
        (
            {"seed": 2**64},
            "seed must be an integer in [-9223372036854775808, 18446744073709551615] or None, got 18446744073709551616",
        ),
        (
            {"seed": "x"},
            "seed must be an integer in [-9223372036854775808, 18446744073709551615] or None, got 'x'",
        ),
        ({"max_tokens": 0}, "max_tokens must be an integer >= 1 or None, got 0"),
        ({"min_tokens": -1}, "min_tokens must be an integer >= 0, got -1"),
        ({"min_tokens": None}, "min_tokens must be an integer >= 0, got None"),
        ({"min_tokens": 17}, "min_tokens must be at most max_tokens, 16, got 17"),
        ({"logprobs": -2}, "logprobs must be an integer >= -1 or None (-1 for all tokens), got -2"),
        ({"logprobs": True}, "logprobs must be an integer >= -1 or None (-1 for all tokens), got True"),
        ({"prompt_logprobs": 1.5}, "prompt_logprobs must be an integer >= -1 or None (-1 for all tokens), got 1.5"),
        ({"ignore_eos": 1}, "ignore_eos must be true or false, got 1"),
        ({"include_stop_str_in_output": None}, "include_stop_str_in_output must be true or false, got None"),
        ({"detokenize": "yes"}, "detokenize must be true or false, got 'yes'"),
        ({"skip_special_tokens": 0}, "skip_special_tokens must be true or false, got 0"),
        ({"stop": 5}, "stop must be a string, a list of strings or None, got 5"),
        ({"stop": b"x"}, "stop must be a string, a list of strings or None, got b'x'"),
        ({"stop": ""}, "stop must be a string that is not empty, got ''"),
        ({"stop": ["a", ""]}, "stop[1] must be a string that is not empty, got ''"),
        ({"stop": ["a", 3]}, "stop[1] must be a string that is not empty, got 3"),
        (
            {"stop": "a", "detokenize": False},
            "stop needs the text: set detokenize=True or leave stop out, got stop=['a']",
        ),
        ({"stop_token_ids": 7}, "stop_token_ids must be a list of token ids or None, got 7"),
        ({"stop_token_ids": "7"}, "stop_token_ids must be a list of token ids or None, got '7'"),
        ({"stop_token_ids": [1, -1]}, "stop_token_ids[1] must be a token id, an integer >= 0, got -1"),
        ({"stop_token_ids": ["</s>"]}, "stop_token_ids[0] must be a token id, an integer >= 0, got '</s>'"),
        ({"allowed_token_ids": [True]}, "allowed_token_ids[0] must be a token id, an integer >= 0, got True"),
        (
            {"allowed_token_ids": []},
            "allowed_token_ids must name at least one token, or be None to allow all, got an empty list",
        ),
        ({"bad_words": [""]}, "bad_words[0] must be a string that is not empty, got ''"),
        ({"bad_words": {"a": 1}}, "bad_words must be a string, a list of strings or None, got {'a': 1}"),
        ({"logit_bias": [1]}, "logit_bias must map token ids to numbers or be None, got [1]"),
        ({"logit_bias": {"x": 1}}, "logit_bias must have token ids, integers >= 0, as keys, got 'x'"),
        ({"logit_bias": {-1: 1}}, "logit_bias must have token ids, integers >= 0, as keys, got -1"),
        ({"logit_bias": {1: 101}}, "logit_bias[1] must be a number in [-100, 100], got 101"),
        ({"logit_bias": {"2": None}}, "logit_bias[2] must be a number in [-100, 100], got None"),
        (
            {"n": 2, "temperature": 0},
            "n must be 1 when temperature is 0, since every sequence would be the same, got 2",
        ),
    ],
    ids=str,
)
def test_what_is_not_allowed(values, message):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**values)
    assert str(caught.value) == message
    assert isinstance(caught.value, ModelHostError)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("temprature", "unknown sampling parameter 'temprature': did you mean 'temperature'?"),
        ("top-p", "unknown sampling parameter 'top-p': did you mean 'top_p'?"),
        ("maxTokens", "unknown sampling parameter 'maxTokens': did you mean 'max_tokens'?"),
        ("q", f"unknown sampling parameter 'q'; known are: {', '.join(VLLM_DEFAULTS)}"),
    ],
)
def test_an_unknown_parameter_names_the_closest(name, message):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{name: 1})
    assert str(caught.value) == message


def test_forms_of_a_value_become_one():
    params = SamplingParams(
        stop="a", stop_token_ids=[3, 1, 3], bad_words=["x", "x"], allowed_token_ids={4}, logit_bias={"7": 1, 8: -2}
    )
    assert params.stop == ("a",)
    assert params.stop_token_ids == (3, 1)
    assert params.bad_words == ("x",)
    assert params.allowed_token_ids == (4,)
    assert params.logit_bias == {7: 1.0, 8: -2.0}
    assert SamplingParams(seed=-1).seed is None


def test_greedy_is_below_vllm_s_epsilon():
    assert SamplingParams(temperature=9e-6).is_greedy
    assert not SamplingParams(temperature=1e-5).is_greedy


def test_values_cannot_change_and_survive_copies():
    params = SamplingParams(stop=["a", "b"], logit_bias={1: 2}, seed=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.seed = 6
    assert copy.deepcopy(params) == pickle.loads(pickle.dumps(params)) == dataclasses.replace(params) == params
    assert dataclasses.replace(params, seed=6).seed == 6


@pytest.mark.parametrize(
    ("values", "limit", "message"),
    [
        ({"logprobs": 21}, 20, "logprobs must be at most 20, the engine's max_logprobs, got 21"),
        ({"logprobs": -1}, 20, "logprobs must be at most 20, the engine's max_logprobs, got -1 (all 100 tokens)"),
        ({"prompt_logprobs": 6}, 5, "prompt_logprobs must be at most 5, the engine's max_logprobs, got 6"),
        (
            {"stop_token_ids": [99, 100]},
            20,
            "stop_token_ids must hold token ids in [0, 99], the model's vocabulary, got 100",
        ),
        (
            {"allowed_token_ids": [5000]},
            20,
            "allowed_token_ids must hold token ids in [0, 99], the model's vocabulary, got 5000",
        ),
        ({"logit_bias": {100: 1}}, 20, "logit_bias must hold token ids in [0, 99], the model's vocabulary, got 100"),
    ],
    ids=str,
)
def test_what_a_model_does_not_allow(values, limit, message):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**values).check_model(100, limit)
    assert str(caught.value) == message


def test_what_a_model_allows():
    SamplingParams(logprobs=20, prompt_logprobs=0, stop_token_ids=[99], logit_bias={0: 1}).check_model(100)
    SamplingParams(logprobs=-1).check_model(100, max_logprobs=-1)
    SamplingParams(logprobs=-1).check_model(100, max_logprobs=100)


def test_the_module_needs_neither_numpy_nor_pydantic():
    code = (
        "import sys, modelhost.engine.sampling_params; print(sorted({'numpy', 'pydantic', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
