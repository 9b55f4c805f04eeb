"""The NumPy kernels against PyTorch, or against formulas in float64, which share no code with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from modelhost.graph.ops import OPS
from modelhost.reference import KERNELS
from modelhost.reference.registry import PagedCache

Array = np.ndarray
RNG = np.random.default_rng(0)
SHAPES = [(1, 1), (3, 7), (7, 33), (2, 3, 5), (0, 7)]


def _random(*shape: int, scale: float = 1.0) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def _close(got: Array, wanted: Array | torch.Tensor, tolerance: float = 2e-6) -> None:
    wanted = np.asarray(wanted)
    assert got.dtype == np.float32 and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max(initial=0)))


def test_every_op_has_a_kernel() -> None:
    assert set(KERNELS) == set(OPS)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    x, weight, b = _random(*shape), _random(5, shape[-1]), _random(5) if bias else None
    wanted = x.astype(np.float64) @ weight.astype(np.float64).T + (0 if b is None else b)
    _close(KERNELS["linear"](x, weight, b), wanted)


def test_embed() -> None:
    table = _random(9, 4)
    ids = np.array([3, 0, 8, 3], np.int32)
    _close(KERNELS["embed"](ids, table, dtype="float32"), F.embedding(torch.tensor(ids), torch.tensor(table)))


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations(kind: str) -> None:
    x = np.concatenate([_random(50, scale=3.0), np.array([0, -0.0, 88, -88, 1e4, -1e4], np.float32)])
    up = _random(56)
    with np.errstate(over="raise", invalid="raise"):
        _close(KERNELS["activation"](x, kind=kind), ACTIVATIONS[kind](torch.tensor(x)))
        gated = KERNELS["gated_activation"](x, up, kind=kind)
    _close(gated, ACTIVATIONS[kind](torch.tensor(x)) * torch.tensor(up))


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise(shape: tuple[int, ...]) -> None:
    x, y = _random(*shape), _random(*shape)
    _close(KERNELS["add"](x, y), x.astype(np.float64) + y)
    _close(KERNELS["multiply"](x, y), x.astype(np.float64) * y)
    _close(KERNELS["scale"](x, factor=5.3), x * np.float64(np.float32(5.3)))
    factors = x[..., :1] + np.float32(2)
    _close(KERNELS["scale_rows"](y, factors), y.astype(np.float64) * factors)
    _close(KERNELS["soft_cap"](x, cap=0.5), 0.5 * np.tanh(x.astype(np.float64) / 0.5))
    _close(KERNELS["cast"](x, dtype="bfloat16"), x)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_norms(shape: tuple[int, ...], offset: float) -> None:
    x, residual, weight = _random(*shape), _random(*shape), _random(shape[-1])
    factors = torch.tensor(weight + np.float32(offset))
    attributes = {"eps": 1e-5, "weight_offset": offset}
    _close(KERNELS["rms_norm"](x, weight, **attributes), F.rms_norm(torch.tensor(x), shape[-1:], factors, 1e-5))
    _close(KERNELS["rms_norm"](x, None, **attributes), F.rms_norm(torch.tensor(x), shape[-1:], None, 1e-5))
    total, normed = KERNELS["add_rms_norm"](x, residual, weight, **attributes)
    _close(total, x + residual)
    _close(normed, F.rms_norm(torch.tensor(x + residual), shape[-1:], factors, 1e-5))


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, weight, bias = _random(*shape, scale=3.0) + 5, _random(shape[-1]), _random(shape[-1])
    wide = [torch.tensor(values).double() for values in (x, weight, bias)]
    _close(KERNELS["layer_norm"](x, weight, bias, eps=1e-5), F.layer_norm(wide[0], shape[-1:], *wide[1:], 1e-5), 1e-5)
    _close(KERNELS["layer_norm"](x, None, None, eps=1e-5), F.layer_norm(wide[0], shape[-1:], eps=1e-5), 1e-5)


def test_rope_tables() -> None:
    positions, lengths = np.array([0, 1, 15, 16, 900], np.int32), np.array([8, 8, 16, 17, 901], np.int32)
    short, long = (1.0, 0.25), (0.5, 0.125)

    def table(frequencies: Array) -> Array:
        angles = positions[:, None] * frequencies.astype(np.float32).astype(np.float64)
        return np.concatenate([np.cos(angles), np.sin(angles)], -1)

    plain = KERNELS["rope_table"](positions, frequencies=short, scale=1.5)
    _close(plain, 1.5 * table(np.array(short)))
    chosen = np.where((lengths > 16)[:, None], long, short)
    attributes = {"short_frequencies": short, "long_frequencies": long, "original_length": 16, "scale": 1.5}
    _close(KERNELS["rope_table_longrope"](positions, lengths, **attributes), 1.5 * table(chosen))
    stretch = np.maximum(1.0, 2.0 * lengths / 16 - 1.0) ** (4 / 2)
    dynamic = (1e4 * stretch[:, None]) ** (-np.array([0, 2]) / 4)
    attributes = {"base": 1e4, "dimensions": 4, "factor": 2.0, "original_length": 16}
    _close(KERNELS["rope_table_dynamic"](positions, lengths, **attributes), table(dynamic), 1e-4)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("rotated", "size"), [(6, 6), (4, 7)])
def test_rope_is_a_complex_product(rotated: int, size: int, interleaved: bool) -> None:
    x, angles = _random(5, 3, size), _random(5, rotated // 2, scale=3.0)
    table = np.concatenate([np.cos(angles), np.sin(angles)], -1)
    got = KERNELS["rope"](x, table, interleaved=interleaved)
    pairs = (
        x[..., :rotated].reshape(5, 3, -1, 2) if interleaved else x[..., :rotated].reshape(5, 3, 2, -1).swapaxes(2, 3)
    )
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None]
    parts = np.stack([turned.real, turned.imag], -1)
    flat = (parts if interleaved else parts.swapaxes(2, 3)).reshape(5, 3, rotated)
    _close(got, np.concatenate([flat, x[..., rotated:]], -1))


def test_shapes() -> None:
    x = _random(4, 6)
    _close(KERNELS["reshape"](x, shape=(4, 2, 3)), x.reshape(4, 2, 3))
    for part, wanted in zip(KERNELS["split"](x, sizes=(1, 2, 3)), (x[:, :1], x[:, 1:3], x[:, 3:]), strict=True):
        _close(part, wanted)
    _close(KERNELS["concatenate"](x[:, :2], x[:, 2:]), x)
    _close(KERNELS["take_rows"](x, np.array([3, 3, 0], np.int32)), x[[3, 3, 0]])


@pytest.mark.parametrize("cap", [None, 0.7])
@pytest.mark.parametrize("window", [None, 1, 4, 100])
@pytest.mark.parametrize("group", [1, 3])
def test_attention_is_dense_attention_over_scattered_blocks(group: int, window: int | None, cap: float | None) -> None:
    kv_heads, key_dim, value_dim, block = 2, 5, 3, 4
    contexts, queries = np.array([9, 1, 14], np.int32), [9, 1, 3]
    table = 1 + RNG.permutation(12).reshape(3, 4).astype(np.int32)
    cache = PagedCache(
        np.zeros((52, kv_heads, key_dim), np.float32), np.zeros((52, kv_heads, value_dim), np.float32), block, window
    )
    starts = np.cumsum([0, *queries]).astype(np.int32)
    query = _random(sum(queries), kv_heads * group, key_dim)
    wanted = []
    for sequence, context in enumerate(contexts.tolist()):
        keys, values = _random(context, kv_heads, key_dim), _random(context, kv_heads, value_dim)
        slots = np.array([table[sequence, p // block] * block + p % block for p in range(context)], np.int32)
        assert KERNELS["write_cache"](keys, values, cache, slots) == ()
        own = query[starts[sequence] : starts[sequence + 1]]
        wanted.append(_dense(own, keys, values, window, cap))
    got = KERNELS["attention"](query, cache, table, starts, contexts, scale=0.6, soft_cap=cap)
    _close(got, np.concatenate(wanted))


def _dense(query: Array, keys: Array, values: Array, window: int | None, cap: float | None) -> Array:
    """Plain masked attention in float64 with every head spelled out."""
    count, context = len(query), len(keys)
    group = query.shape[1] // keys.shape[1]
    distance = (np.arange(context)[:, None] - np.arange(context))[context - count :]
    hidden = (distance < 0) | (distance >= (window or context + 1))
    result = np.empty((count, query.shape[1], values.shape[2]))
    for head in range(query.shape[1]):
        scores = 0.6 * query[:, head].astype(np.float64) @ keys[:, head // group].T
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        weights = np.exp(np.where(hidden, -np.inf, scores))
        result[:, head] = weights / weights.sum(-1, keepdims=True) @ values[:, head // group]
    return result


def test_an_overwritten_slot_holds_the_last_value() -> None:
    cache = PagedCache(np.zeros((4, 1, 2), np.float32), np.zeros((4, 1, 2), np.float32), 4, None)
    first, second = _random(2, 1, 2), _random(1, 1, 2)
    KERNELS["write_cache"](first, first, cache, np.array([1, 2], np.int32))
    KERNELS["write_cache"](second, second, cache, np.array([2], np.int32))
    np.testing.assert_array_equal(
        cache.keys[[0, 1, 2, 3], 0], np.stack([0 * first[0, 0], first[0, 0], second[0, 0], 0 * first[0, 0]])
    )
