"""How the work of attention is divided: everything that is seen is attended to, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from modelhost_cpu.kernels.attention_tasks import (
    CONTEXT_END,
    CONTEXT_START,
    END_HEAD,
    END_PARTITION,
    FINISHED,
    FIRST_HEAD,
    FIRST_PARTITION,
    FIRST_ROW,
    MOST_ROWS,
    OWNER,
    PARTITION,
    ROWS,
    SEQUENCE,
    STORED_ROW,
    STORED_ROWS,
    AttentionTasks,
)

PLAIN = AttentionTasks("starts", "contexts", 2, 3, None, 1, alone=False, whole=False, threads=2)
PLANS = {
    "plain": PLAIN,
    "one thread": replace(PLAIN, threads=1),
    "many threads": replace(PLAIN, threads=48),
    "one head": replace(PLAIN, kv_heads=1),
    "window": replace(PLAIN, window=300),
    "window of entries": replace(PLAIN, stride=1, window=7, threads=3),
    "stride": replace(PLAIN, stride=4),
    "tokens alone": replace(PLAIN, alone=True),
    "more heads than rows of a task": replace(PLAIN, group=300),
    "whole contexts": replace(PLAIN, whole=True),
}
SEQUENCES = {
    "one token": ([1], [1]),
    "one token after many": ([1], [40_000]),
    "prompt": ([300], [300]),
    "end of a prompt": ([33], [5_000]),
    "batch": ([1, 1, 0, 20, 1, 300], [900, 5, 7, 20, 12_345, 301]),
    "many sequences": ([1] * 40, list(range(1, 4_001, 100))),
    "nothing": ([], []),
}


def _seen(plan: AttentionTasks, counts: list[int], contexts: list[int]) -> Counter[tuple[int, int, int, int]]:
    """Sequence, head, row and partition of everything that is seen."""
    found: Counter[tuple[int, int, int, int]] = Counter()
    for sequence, (count, context) in enumerate(zip(counts, contexts, strict=True)):
        for token in range(count):
            end = (context - count + token + 1) // plan.stride
            low = 0 if plan.window is None else max(0, end - plan.window)
            for row in range(token * plan.group, (token + 1) * plan.group):
                for head in range(plan.kv_heads):
                    for partition in range(low // PARTITION, -(-end // PARTITION)):
                        found[sequence, head, row, partition] += 1
    return found


def _inputs(counts: list[int], contexts: list[int]) -> dict[str, np.ndarray]:
    return {"starts": np.cumsum([0, *counts], dtype=np.int32), "contexts": np.array(contexts, np.int32)}


def _fresh(plan: AttentionTasks) -> AttentionTasks:
    return AttentionTasks(*(getattr(plan, field.name) for field in fields(plan) if field.init and field.repr))


@pytest.mark.parametrize("sequences", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_everything_once(plan: AttentionTasks, sequences: tuple[list[int], list[int]]) -> None:
    plan = _fresh(plan)
    counts, contexts = sequences
    tasks = plan.tasks(_inputs(counts, contexts))
    done: Counter[tuple[int, int, int, int]] = Counter()
    for task in tasks.tolist():
        assert 0 < task[ROWS] <= MOST_ROWS
        assert not plan.alone or task[FIRST_ROW] // plan.group == (task[FIRST_ROW] + task[ROWS] - 1) // plan.group
        for head in range(task[FIRST_HEAD], task[END_HEAD]):
            for row in range(task[FIRST_ROW], task[FIRST_ROW] + task[ROWS]):
                for partition in range(task[FIRST_PARTITION], task[END_PARTITION]):
                    done[task[SEQUENCE], head, row, partition] += 1
    wanted = _seen(plan, counts, contexts)
    assert all(count == 1 for count in done.values())
    assert wanted.keys() <= done.keys()


@pytest.mark.parametrize("sequences", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_stored_rows(plan: AttentionTasks, sequences: tuple[list[int], list[int]]) -> None:
    """Tasks that share rows store every partition in a place of its own, and one of them owns the counter."""
    plan = _fresh(plan)
    inputs = _inputs(*sequences)
    tasks, stored = plan.tasks(inputs).tolist(), len(plan.stored_rows(inputs))
    assert stored <= plan.most_stored_rows
    taken: Counter[int] = Counter()
    for index, task in enumerate(tasks):
        assert task[FINISHED] == 0
        whole = (task[FIRST_PARTITION], task[END_PARTITION]) == (task[CONTEXT_START], task[CONTEXT_END])
        assert (task[STORED_ROW] < 0) == whole
        if whole:
            assert task[OWNER] == index
            continue
        owner = tasks[task[OWNER]]
        same = (SEQUENCE, FIRST_ROW, ROWS, FIRST_HEAD, END_HEAD, STORED_ROW, CONTEXT_START, CONTEXT_END, OWNER)
        assert [task[field] for field in same] == [owner[field] for field in same]
        assert task[END_HEAD] - task[FIRST_HEAD] == 1
        height = -(-task[ROWS] // STORED_ROWS) * STORED_ROWS
        first = task[STORED_ROW] + (task[FIRST_PARTITION] - task[CONTEXT_START]) * height
        taken.update(range(first, first + (task[END_PARTITION] - task[FIRST_PARTITION]) * height))
    assert all(count == 1 for count in taken.values())
    assert set(taken) <= set(range(stored))


def test_long_contexts_are_shared() -> None:
    """A single token after a long context keeps all threads busy, even with one head."""
    for threads in (2, 3, 8):
        plan = replace(PLAIN, kv_heads=1, threads=threads)
        tasks = plan.tasks(_inputs([1], [PARTITION * 4 * threads]))
        largest = max(task[END_PARTITION] - task[FIRST_PARTITION] for task in tasks.tolist())
        assert largest <= 4


def test_made_anew_for_other_inputs() -> None:
    plan = _fresh(PLAIN)
    first = plan.tasks(_inputs([1], [10])).copy()
    assert plan.tasks(_inputs([3], [1_000])).tolist() != first.tolist()
    assert plan.tasks(_inputs([1], [10])).tolist() == first.tolist()
