"""The Python entry points on a tiny random model and the reference backend."""

from __future__ import annotations

import asyncio

import pytest

from modelhost import LLM, AsyncLLM, SamplingParams
from modelhost.api import ConfigError, MemoryBudgetError, ModelHostError, RequestError, TokenizerError
from tests.tiny_model import write_tiny_model

PROMPTS = [
    "a",
    "The quick brown fox jumps over the lazy dog",
    "0123456789" * 5,
    "héllo wörld",
    " ",
    "\n\n",
    "zz" * 31,
    "def f(x):",
]
GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, logprobs=3)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))


@pytest.fixture(scope="module")
def llm(model) -> LLM:
    return LLM(model, backend="reference")


def result(output):
    answer = output.outputs[0]
    return answer.token_ids, answer.text, answer.logprobs, answer.finish_reason


@pytest.mark.parametrize("settings", [{}, {"max_num_batched_tokens": 9, "max_num_seqs": 8}, {"block_size": 3}])
def test_a_mixed_batch_equals_each_request_alone_bit_for_bit(model, llm, settings):
    alone = [result(llm.generate(prompt, GREEDY)[0]) for prompt in PROMPTS]
    together = [result(output) for output in LLM(model, backend="reference", **settings).generate(PROMPTS, GREEDY)]
    assert together == alone


def test_settings_of_the_backend(model, llm):
    deterministic = LLM(model, backend="reference", deterministic=True)
    assert result(deterministic.generate("abc", GREEDY)[0]) == result(llm.generate("abc", GREEDY)[0])
    for kind in (LLM, AsyncLLM):
        with pytest.raises(ConfigError, match=r"^backend 'reference' takes no --threads; "):
            kind(model, backend="reference", threads=2)


def test_sampled_tokens_do_not_depend_on_the_batch(llm):
    params = [SamplingParams(temperature=0.8, top_p=0.9, seed=seed, max_tokens=10) for seed in range(8)]
    alone = [result(llm.generate(prompt, one)[0]) for prompt, one in zip(PROMPTS, params, strict=True)]
    assert [result(output) for output in llm.generate(PROMPTS, params)] == alone


def test_a_seed_repeats_and_another_does_not(llm):
    texts = [llm.generate("abc", SamplingParams(seed=s, max_tokens=20))[0].outputs[0].token_ids for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_preemption_changes_nothing(model, llm):
    small = LLM(model, backend="reference", max_model_len=96, kv_cache_memory_bytes=96 * 3 * 2 * 2 * 12 * 4)
    assert [result(o) for o in small.generate(PROMPTS, GREEDY)] == [result(o) for o in llm.generate(PROMPTS, GREEDY)]


def test_prompt_forms_are_equivalent(llm):
    ids = llm.get_tokenizer().encode("abc")
    forms = ["abc", ids, {"prompt": "abc"}, {"prompt_token_ids": ids}]
    outputs = llm.generate(forms, GREEDY)
    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 1
    assert [output.prompt for output in outputs] == ["abc", None, "abc", None]


def test_stream_gives_what_generate_gives(llm):
    whole = llm.generate("abc", GREEDY)[0].outputs[0]
    deltas = [output.outputs[0].delta for output in llm.stream("abc", GREEDY)]
    assert "".join(deltas) == whole.text
    assert len(deltas) == 12


def test_streams_that_are_open_at_once_lose_nothing_and_share_nothing(llm):
    alone = {prompt: llm.generate(prompt, GREEDY)[0].outputs[0].text for prompt in PROMPTS}
    streams = {prompt: llm.stream(prompt, GREEDY) for prompt in PROMPTS}
    deltas = {prompt: next(stream).outputs[0].delta for prompt, stream in streams.items()}
    between = llm.generate("abc", GREEDY)[0].outputs[0].text
    for prompt, stream in reversed(streams.items()):
        deltas[prompt] += "".join(output.outputs[0].delta for output in stream)
    assert deltas == alone
    assert between == llm.generate("abc", GREEDY)[0].outputs[0].text


def test_a_stream_that_another_call_ended_says_so(llm, monkeypatch):
    stream = llm.stream("abc", GREEDY)
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(llm.model.engine.executable, "run", lambda inputs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            llm.generate("abc", GREEDY)
    with pytest.raises(ModelHostError, match="ended by an error"):
        next(stream)
    assert llm.generate("abc", GREEDY)[0].finished


def test_leaving_a_stream_frees_the_request(llm):
    for _ in llm.stream("abc", GREEDY):
        break
    assert not llm.model.engine.busy


def test_chat_goes_through_the_template(llm):
    output = llm.chat([{"role": "user", "content": "hi"}], GREEDY)[0]
    assert output.prompt == "<s><|user|>hi<|assistant|>"
    assert output.prompt_token_ids[0] == llm.get_tokenizer().bos_token_id
    assert output.prompt_token_ids.count(output.prompt_token_ids[0]) == 1


def test_many_conversations(llm):
    outputs = llm.chat([[{"role": "user", "content": text}] for text in "ab"], GREEDY)
    assert [output.prompt for output in outputs] == ["<s><|user|>a<|assistant|>", "<s><|user|>b<|assistant|>"]


def test_a_stop_string_ends_the_text_before_it(llm):
    text = llm.generate("abc", GREEDY)[0].outputs[0].text
    stop = text[4:6]
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, stop=[stop])
    answer = llm.generate("abc", params)[0].outputs[0]
    assert answer.text == text[: text.index(stop)]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)


def test_progress_is_reported(llm):
    seen = []
    llm.generate(["a", "b", "c"], SamplingParams(max_tokens=2), on_progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (3, 3)


def test_no_prompts_give_no_outputs(llm):
    assert llm.generate([], GREEDY) == []


def test_concurrent_asynchronous_requests(model, llm):
    async def collect(engine: AsyncLLM, prompt: str):
        deltas, last = [], None
        async for last in engine.generate(prompt, GREEDY):
            deltas.append(last.outputs[0].delta)
        assert last is not None
        assert "".join(deltas) == last.outputs[0].text
        return result(last)

    async def run():
        async with AsyncLLM(model, backend="reference") as engine:
            return await asyncio.gather(*(collect(engine, prompt) for prompt in PROMPTS))

    assert asyncio.run(run()) == [result(output) for output in llm.generate(PROMPTS, GREEDY)]


def test_leaving_an_asynchronous_stream_stops_the_request(model):
    async def run():
        async with AsyncLLM(model, backend="reference") as engine:
            stream = engine.generate("abc", SamplingParams(max_tokens=100, ignore_eos=True))
            async for _ in stream:
                break
            await stream.aclose()
            for _ in range(100):
                if not engine.model.engine.busy:
                    return True
                await asyncio.sleep(0.05)
            return False

    assert asyncio.run(run())


def test_an_invalid_asynchronous_request_harms_no_other(model):
    async def run():
        async with AsyncLLM(model, backend="reference") as engine:
            with pytest.raises(RequestError, match=r"^the prompt is empty; give at least one token$"):
                await anext(engine.generate([]))
            outputs = [output async for output in engine.generate("abc", GREEDY)]
            return outputs[-1].finished

    assert asyncio.run(run())


def test_requests_after_shutdown_are_refused(model):
    async def run():
        engine = AsyncLLM(model, backend="reference")
        engine.shutdown()
        await anext(engine.generate("abc"))

    with pytest.raises(Exception, match=r"^the engine has stopped \(.*\); create a new AsyncLLM$"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "the prompt is empty; give at least one token"),
        (object(), "a prompt must be text, a list of token ids or a mapping, got object"),
        ({"text": "a"}, "a prompt given as a mapping needs 'prompt' or 'prompt_token_ids', got keys ['text']"),
        (
            "a" * 128,
            "the prompt has 128 tokens and the context holds 128, so no room is left for an answer; "
            "shorten the prompt or load the model with a larger max_model_len",
        ),
    ],
)
def test_prompts_that_are_refused(llm, prompt, message):
    with pytest.raises(RequestError) as error:
        llm.generate([prompt], GREEDY)
    assert str(error.value) == message
    assert not llm.model.engine.busy


def test_one_bad_prompt_among_good_ones_runs_nothing(llm):
    with pytest.raises(RequestError):
        llm.generate(["a", ""], GREEDY)
    assert not llm.model.engine.busy


def test_a_model_without_a_tokenizer_takes_token_ids_only(tmp_path):
    path = write_tiny_model(tmp_path / "model")
    (path / "tokenizer.json").unlink()
    bare = LLM(str(path), backend="reference")
    assert len(bare.generate([[1, 2, 3]], GREEDY)[0].outputs[0].token_ids) == 12
    with pytest.raises(RequestError, match=r"^the model has no tokenizer; give the prompt as token ids$"):
        bare.generate("a")
    with pytest.raises(TokenizerError, match=r"^the model has no tokenizer, so it cannot chat"):
        bare.chat([{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": 0}, "block_size: Input should be greater than 0, got 0"),
        ({"colour": 1}, "colour: Extra inputs are not permitted, got 1"),
        ({"max_num_batched_tokens": 4, "max_num_seqs": 8}, "must be at least max_num_seqs 8"),
    ],
)
def test_settings_that_are_refused(model, settings, message):
    with pytest.raises(ConfigError) as error:
        LLM(model, backend="reference", **settings)
    assert str(error.value).startswith("engine settings are not valid: ")
    assert message in str(error.value)


def tight_budget(model: str) -> int:
    """Bytes that hold weights and workspace, but not the cache of a whole context."""
    memory = LLM(model, backend="reference", max_num_batched_tokens=64).model.prepared.memory
    return memory.weights + memory.workspace + sum(group.bytes_per_token for group in memory.groups) * 80


def test_a_model_that_does_not_fit_is_refused_with_what_would_fit(model):
    budget = tight_budget(model)
    with pytest.raises(MemoryBudgetError) as error:
        LLM(model, backend="reference", memory_bytes=budget, max_model_len=128, max_num_batched_tokens=64)
    text = str(error.value)
    assert text.startswith("the model needs ")
    assert f"for one sequence of 128 tokens, and {budget / 2**20:.1f} MiB are available" in text
    assert "  --max-model-len 64 fits" in text


def test_the_context_shrinks_to_what_fits_when_it_was_not_asked_for(model):
    budget = tight_budget(model)
    memory = LLM(model, backend="reference", memory_bytes=budget, max_num_batched_tokens=64).model.prepared.memory
    assert memory.max_model_len == 64
    assert memory.total <= budget


def test_nothing_fits_into_too_little(model):
    with pytest.raises(MemoryBudgetError, match=r"^the model needs .* for one sequence of 16 tokens, and 0.0 MiB are"):
        LLM(model, backend="reference", memory_bytes=1000)
