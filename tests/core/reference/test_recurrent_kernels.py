"""The NumPy kernels of recurrent layers against PyTorch and against formulas in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from modelhost.reference import KERNELS

Array = np.ndarray
RNG = np.random.default_rng(0)
CONTEXTS, COUNTS = [9, 1, 14, 6], [9, 1, 3, 0]
"""Two sequences that start, one that goes on, one without a token."""
STARTS = np.cumsum([0, *COUNTS]).astype(np.int32)
READ, WRITE = np.array([5, 3, 2, 4], np.int32), np.array([1, 3, 6, 0], np.int32)
INDICES = (READ, WRITE, STARTS, np.array(CONTEXTS, np.int32))


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _close(got: Array, wanted: Array, tolerance: float = 2e-6) -> None:
    assert got.dtype == np.float32 and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max(initial=0)))


def _states(*shape: int) -> Array:
    """Seven slots. What sequences that start are told to read is not even a number."""
    states = _random(7, *shape)
    states[[5, 3]] = np.nan
    return states


def _check_slots(before: Array, after: Array) -> None:
    """All slots but those that are written to keep what they held."""
    kept = np.setdiff1d(np.arange(7), WRITE)
    np.testing.assert_array_equal(after[kept], before[kept])
    np.testing.assert_array_equal(after[WRITE[3]], before[READ[3]])


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_causal_convolution(width: int, bias: bool, activation: str | None) -> None:
    channels = 5
    x, weight, offset = _random(sum(COUNTS), channels), _random(channels, width), _random(channels) if bias else None
    states = _states(width - 1, channels)
    before = states.copy()
    got = KERNELS["causal_convolution"](x, weight, offset, states, *INDICES, activation=activation)
    wanted, ends = [], []
    for sequence, (context, count) in enumerate(zip(CONTEXTS, COUNTS, strict=True)):
        history = np.zeros((width - 1, channels)) if context == count else before[READ[sequence]]
        inputs = np.concatenate([history, x[STARTS[sequence] : STARTS[sequence + 1]]])
        ends.append(inputs[len(inputs) - width + 1 :])
        if count:
            padded = torch.tensor(inputs.T[None], dtype=torch.float64)
            taps = torch.tensor(weight[:, None], dtype=torch.float64)
            shift = None if offset is None else torch.tensor(offset, dtype=torch.float64)
            convolved = F.conv1d(padded, taps, shift, groups=channels)
            wanted.append((F.silu(convolved) if activation else convolved)[0].T.numpy())
    _close(got, np.concatenate(wanted))
    np.testing.assert_array_equal(states[WRITE], np.stack(ends).astype(np.float32))
    _check_slots(before, states)


@pytest.mark.parametrize("shape", [(3,), (3, 5)])
def test_decay_gate(shape: tuple[int, ...]) -> None:
    x, rate, bias = 9 * _random(7, *shape), _random(3), _random(int(np.prod(shape)))
    wide = torch.tensor(x, dtype=torch.float64) + torch.tensor(bias.reshape(shape))
    wanted = -torch.tensor(rate.astype(np.float64)).exp().view(3, *(1,) * (len(shape) - 1)) * torch.log1p(wide.exp())
    _close(KERNELS["decay_gate"](x, rate, bias), wanted.numpy())


HEADS: dict[str, Callable[[int, int, int], int]] = {
    "grouped": lambda head, value_heads, key_heads: head // (value_heads // key_heads),
    "tiled": lambda head, value_heads, key_heads: head % key_heads,
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("order", HEADS)
@pytest.mark.parametrize("heads", [(1, 1), (2, 6), (3, 3)])
def test_gated_delta_rule(heads: tuple[int, int], order: str, by_row: bool, normalize: bool) -> None:
    tokens, (key_heads, value_heads), key_dim, value_dim = sum(COUNTS), heads, 4, 3
    query, key = (0.5 * _random(tokens, key_heads, key_dim) for _ in range(2))
    value, beta = _random(tokens, value_heads, value_dim), RNG.random((tokens, value_heads)).astype(np.float32)
    decay = -RNG.random((tokens, value_heads, key_dim)[: 3 if by_row else 2]).astype(np.float32)
    states = _states(value_heads, key_dim, value_dim)
    before = states.copy()
    got = KERNELS["gated_delta_rule"](
        query, key, value, decay, beta, states, *INDICES, scale=0.7, normalize=normalize, key_heads=order
    )
    wanted = np.empty(value.shape)
    for sequence, (context, count) in enumerate(zip(CONTEXTS, COUNTS, strict=True)):
        for head in range(value_heads):
            shared = HEADS[order](head, value_heads, key_heads)
            state = np.zeros((key_dim, value_dim))
            if context > count:
                state = before[READ[sequence], head].astype(np.float64)
            for row in range(STARTS[sequence], STARTS[sequence + 1]):
                q, k = query[row, shared].astype(np.float64), key[row, shared].astype(np.float64)
                if normalize:
                    q, k = q / np.sqrt(q @ q + 1e-6), k / np.sqrt(k @ k + 1e-6)
                state = np.diag(np.exp(np.broadcast_to(decay[row, head], key_dim))) @ state
                state = state + np.outer(k, beta[row, head] * (value[row, head] - k @ state))
                wanted[row, head] = 0.7 * q @ state
            _close(states[WRITE[sequence], head], state)
    _close(got, wanted)
    _check_slots(before, states)


def test_a_state_that_is_read_and_written_in_one_slot() -> None:
    x, weight = _random(1, 2), _random(2, 3)
    states = _random(2, 2, 2)
    before = states.copy()
    slot, starts = np.array([1], np.int32), np.array([0, 1], np.int32)
    KERNELS["causal_convolution"](x, weight, None, states, slot, slot, starts, np.array([4], np.int32), activation=None)
    np.testing.assert_array_equal(states[1], np.stack([before[1, 1], x[0]]))
