"""Hours of traffic in a few minutes: random requests on the cpu backend with a cache that is too small for them.

Requests differ in length, beginning, number of answers, priority, stop conditions and sampling; some are aborted. Every
answer must end as its parameters say, nothing may leak, and every answer must be that of its request alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelhost import LLM

from .engines import another_engine, write_case
from .process import resident_bytes, thread_count
from .traffic import WIDTH, Served, Users, alone, mixes_origins, serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory and threads are read from /proc"),
]
SMOLLM2_GROWTH, FAMILY_GROWTH = 8 << 20, 2 << 20
"""Bytes by which memory may grow after the warm-up. It grows when a step is larger than all before: by 197 KB for every
row of SmolLM2's logits, and by next to nothing for the small models."""
WORDS = (" the", "\n\n", "ing", " of", " and")
NGRAM = {"method": "ngram", "num_speculative_tokens": 4}
SMOLLM2 = {
    "bfloat16": {"dtype": "bfloat16"},
    "bfloat16-ngram-deterministic": {"dtype": "bfloat16", "speculative_config": NGRAM, "deterministic": True},
    "float32-ngram": {"dtype": "float32", "speculative_config": NGRAM},
}
FAMILIES = (
    "llama-dynamic",
    "qwen2-window-tied",
    "qwen3",
    "qwen3.5",
    "gemma2",
    "gemma3",
    "glm4",
    "qwen3-moe",
    "qwen3.5-moe",
    "deepseek-v3.2",
    "deepseek-v4",
    "kimi-linear",
)


def soak(llm: LLM, users: Users, count: int, *, compared: int, most_growth: int) -> Counter[str]:
    """Serve ``count`` requests, a third of them to warm up, and check ``compared`` of them alone.

    Returns:
        what happened how often.
    """
    engine = llm.model.engine
    threads = thread_count()
    served = list(serve(engine, users, count // 3, seed=0))
    warm = resident_bytes()
    served += serve(engine, users, count - count // 3, seed=1)
    growth = resident_bytes() - warm
    assert growth < most_growth, f"memory grew by {growth:,} bytes"
    assert thread_count() == threads
    assert len(served) == count
    assert not engine.busy and not engine.scheduler.waiting and not engine.scheduler.running
    assert engine.scheduler.cache.usage() == 0
    facts = Counter(str(answer.finish_reason) for one in served for answer in one.answers)
    facts.update(preempted=engine.scheduler.preemptions, accepted=engine.speculation.accepted, growth=growth)
    return facts | compare(llm, served, compared)


def compare(llm: LLM, served: list[Served], count: int) -> Counter[str]:
    """Run a sample of requests alone, without caching and speculation: their answers are the same bits."""
    quiet = another_engine(llm, enable_prefix_caching=False, speculative_config=None)
    config = llm.model.engine.config
    picked = np.random.default_rng(2).choice(len(served), min(count, len(served)), replace=False).tolist()
    same = exempt = 0
    for one in (served[place] for place in picked):
        others = [other for other in served if other is not one]
        if not config.deterministic and mixes_origins(one, others, config.block_size):
            exempt += 1
            continue
        for among, answer in zip(one.answers, alone(quiet, one.job), strict=True):
            assert among.begins(answer), f"{one.job}: {among.token_ids} among others, {answer.token_ids} alone"
            if among.finish_reason != "abort":
                assert (among.finish_reason, among.stop_reason) == (answer.finish_reason, answer.stop_reason)
                assert len(among.token_ids) == len(answer.token_ids)
        same += 1
    assert same > exempt, f"only {same} of {len(picked)} requests can be compared"
    return Counter(same=same, exempt=exempt)


def check_facts(facts: Counter[str], *, speculation: bool) -> None:
    """What the soak is about has happened."""
    print(dict(facts))
    assert min(facts[reason] for reason in ("stop", "length", "abort", "preempted")) > 0
    assert (facts["accepted"] > 0) == speculation


def crowded(path: Path, **settings: Any) -> LLM:
    """A model whose cache holds three sequences of full length where up to 16 prompts come at a time."""
    settings |= {"backend": "cpu", "scheduling_policy": "priority", "threads": 2}
    three = LLM(str(path), max_num_seqs=3, **settings).model.prepared.memory
    return LLM(str(path), max_num_seqs=WIDTH, kv_cache_memory_bytes=three.cache, **settings)


@pytest.mark.parametrize("name", SMOLLM2)
def test_smollm2(name: str, checkpoint_file: Callable[[str], Path]) -> None:
    settings = SMOLLM2[name]
    llm = crowded(checkpoint_file("smollm2"), max_model_len=384, max_num_batched_tokens=256, **settings)
    users = Users(3, llm.model.engine.vocab_size, 384, words=WORDS)
    check_facts(
        soak(llm, users, 150, compared=40, most_growth=SMOLLM2_GROWTH), speculation="speculative_config" in settings
    )


@pytest.mark.parametrize("deterministic", [False, True], ids=["default", "deterministic"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str, deterministic: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"deterministic": True, "speculative_config": NGRAM} if deterministic else {}
    llm = crowded(write_case(tmp_path, name), max_model_len=96, block_size=4, max_num_batched_tokens=64, **settings)
    users = Users(4, llm.model.engine.vocab_size, 96)
    check_facts(soak(llm, users, 200, compared=60, most_growth=FAMILY_GROWTH), speculation=deterministic)
