"""The order in which recurrent states advance."""

from __future__ import annotations

import numpy as np
import torch
from modelhost_torch.walk import Walk, plan_walk

CPU = torch.device("cpu")


def walk(counts: list[int], contexts: list[int]) -> Walk:
    slots = np.arange(len(counts), dtype=np.int32)
    starts = np.cumsum([0, *counts]).astype(np.int32)
    return plan_walk(slots + 10, slots + 20, starts, np.array(contexts, np.int32), CPU)


def test_decoding_is_one_time_in_the_order_of_the_step() -> None:
    plan = walk([1, 1, 1], [4, 9, 2])
    assert (plan.counts, plan.order, plan.fresh) == ([3], None, None)
    assert plan.read.tolist() == [10, 11, 12] and plan.write.tolist() == [20, 21, 22]


def test_one_prompt_keeps_the_order_of_the_step() -> None:
    plan = walk([5], [5])
    assert plan.counts == [1] * 5 and plan.order is None
    assert plan.fresh is not None and plan.fresh.tolist() == [0]


def test_the_longest_come_first() -> None:
    plan = walk([1, 3, 0, 2], [8, 3, 7, 9])
    assert plan.read.tolist() == [11, 13, 10, 12]
    assert plan.counts == [3, 2, 1]
    assert plan.order is not None and plan.order.tolist() == [1, 4, 0, 2, 5, 3]
    assert plan.fresh is not None and plan.fresh.tolist() == [0]
    assert [(time.start, time.stop) for time in plan.times()] == [(0, 3), (3, 5), (5, 6)]
    rows = torch.arange(6.0)[:, None]
    assert plan.restored(plan.ordered(rows)).tolist() == rows.tolist()


def test_states_are_copies_and_those_of_new_sequences_zero() -> None:
    stored = torch.ones(30, 2)
    states = walk([1, 3], [4, 3]).states(stored)
    assert states.tolist() == [[0, 0], [1, 1]]
    states += 1
    assert stored.eq(1).all()


def test_a_step_without_sequences() -> None:
    plan = walk([], [])
    assert plan.counts == [] and list(plan.times()) == []
    assert plan.states(torch.ones(30, 2)).shape == (0, 2)


def test_taps_of_one_sequence_are_slices() -> None:
    taps = walk([4], [9]).taps(3)
    assert taps.rows == (slice(0, 4), slice(1, 5), slice(2, 6)) and taps.last == slice(4, 6)


def test_taps_reach_back_into_the_states() -> None:
    plan = walk([1, 2], [4, 6])
    taps = plan.taps(3)
    states, inputs = [["s0", "s1"], ["r0", "r1"]], ["x", "y0", "y1"]
    buffer = [*states[0], *states[1], *inputs]
    read = [[buffer[row] for row in (rows.tolist() if isinstance(rows, torch.Tensor) else [])] for rows in taps.rows]
    # The second sequence is longer, so its state comes first.
    assert read[0] == ["r0", "s0", "s1"]
    assert read[1] == ["r1", "s1", "y0"]
    assert taps.rows[2] == slice(4, 7)
    assert isinstance(taps.last, torch.Tensor)
    assert [buffer[row] for row in taps.last.tolist()] == ["y0", "y1", "r1", "x"]
    assert plan.taps(3) is taps
