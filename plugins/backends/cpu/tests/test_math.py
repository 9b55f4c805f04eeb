"""Elementary functions against float64, over arguments of all exponents."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from modelhost_cpu.kernels.activations import ACTIVATIONS
from modelhost_cpu.language import math as functions
from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import f32, vector
from modelhost_cpu.language.value import Value

from modelhost.testing.oracles import ACTIVATIONS as REFERENCE

from .kernel_language import TARGETS, Array, apply

TIERS = [name for name in TARGETS if not name.startswith("without")]
SMALLEST = 2.0**-126


def _every_exponent() -> Array:
    """Both signs of 64 numbers of every exponent, infinities and NaN, and many numbers of common sizes."""
    fractions = np.random.default_rng(0).integers(0, 1 << 23, (256, 64), dtype=np.uint32)
    fractions[:, 0], fractions[:, 1] = 0, (1 << 23) - 1
    bits = ((np.arange(256, dtype=np.uint32)[:, None] << 23) | fractions).reshape(-1)
    common = [np.linspace(-limit, limit, 1 << 13, dtype=np.float32) for limit in (1.5, 20, 110)]
    return np.concatenate([bits.view(np.float32), (bits | 0x80000000).view(np.float32), *common])


ARGUMENTS = _every_exponent()


def call(k: Function, x: Value, name: str) -> Value:
    function: Callable[[Function, Value], Value] = getattr(functions, name)
    return function(k, x)


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _erf(x: Array) -> Array:
    return np.array([math.erf(number) for number in x.tolist()])


EXACT: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.2),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 2.0),
    "softplus": (_softplus, 2.0),
    "sigmoid": (_sigmoid, 2.5),
    "tanh": (np.tanh, 2.0),
    "erf": (_erf, 2.0),
}
"""The function in float64, and the error in units in the last place that the docstring promises."""


def _require_ulps(got: Array, wanted: Array, ulps: float) -> None:
    """NaN for NaN, infinities the same, everything else within ``ulps``; below the normal numbers, below them."""
    rounded = wanted.astype(np.float32)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    tiny = np.abs(wanted) < SMALLEST
    assert (np.abs(got[tiny]) <= SMALLEST).all()
    normal = ~special & ~tiny
    error = np.abs(got[normal] - wanted[normal]) / np.spacing(np.abs(rounded[normal]))
    assert error.max() <= ulps


@pytest.mark.parametrize("target", TIERS)
@pytest.mark.parametrize("name", EXACT)
def test_accuracy(target: str, name: str) -> None:
    function, ulps = EXACT[name]
    (got,) = apply(target, call, [(vector(f32, 16), ARGUMENTS)], [np.float32], name=name)
    with np.errstate(all="ignore"):
        wanted = function(ARGUMENTS.astype(np.float64))
        _require_ulps(got, wanted, ulps)


@pytest.mark.parametrize("target", TIERS)
def test_powers_of_two_for_attention_weights(target: str) -> None:
    x = -np.abs(ARGUMENTS[~np.isnan(ARGUMENTS)])
    x = x[: x.size // 16 * 16]
    (got,) = apply(target, call, [(vector(f32, 16), x)], [np.float32], name="exp2_of_negative")
    _require_ulps(got, np.exp2(x.astype(np.float64)), 1.2)
    assert (got >= 0).all()


@pytest.mark.parametrize("name", [*EXACT, "exp2_of_negative"])
@pytest.mark.parametrize("target", TIERS)
@pytest.mark.parametrize("lanes", (0, 4, 5))
def test_lanes_do_not_change_results(target: str, name: str, lanes: int) -> None:
    x = np.linspace(-30, 0, 320, dtype=np.float32) if name.endswith("negative") else ARGUMENTS[::101][:320]
    (sixteen,) = apply(target, call, [(vector(f32, 16), x)], [np.float32], name=name)
    (other,) = apply(target, call, [(vector(f32, lanes) if lanes else f32, x)], [np.float32], name=name)
    np.testing.assert_array_equal(other, sixteen)


POINTS: dict[str, dict[float, float]] = {
    "exp": {0.0: 1.0, -math.inf: 0.0, math.inf: math.inf, 88.73: math.inf, -104.0: 0.0},
    "exp2": {0.0: 1.0, 10.0: 1024.0, -126.0: SMALLEST, 128.0: math.inf, -math.inf: 0.0},
    "exp2_of_negative": {0.0: 1.0, -3.0: 0.125, -math.inf: 0.0},
    "log": {1.0: 0.0, 0.0: -math.inf, math.inf: math.inf, -1.0: math.nan},
    "log1p": {0.0: 0.0, -1.0: -math.inf, math.inf: math.inf, -2.0: math.nan},
    "softplus": {-math.inf: 0.0, math.inf: math.inf, 100.0: 100.0},
    "sigmoid": {0.0: 0.5, -math.inf: 0.0, math.inf: 1.0},
    "tanh": {0.0: 0.0, -math.inf: -1.0, math.inf: 1.0, -20.0: -1.0},
    "erf": {0.0: 0.0, -math.inf: -1.0, math.inf: 1.0, 5.0: 1.0},
}


@pytest.mark.parametrize("target", TIERS)
@pytest.mark.parametrize("name", POINTS)
def test_exact_points(target: str, name: str) -> None:
    x = np.array(list(POINTS[name]), np.float32)
    (got,) = apply(target, call, [(f32, x)], [np.float32], name=name)
    np.testing.assert_array_equal(got, np.array(list(POINTS[name].values()), np.float32))


@pytest.mark.parametrize("target", TIERS)
def test_sine_and_cosine_of_large_angles(target: str) -> None:
    x = np.concatenate([np.linspace(-limit, limit, 1 << 14, dtype=np.float32) for limit in (4, 1e3, 1e6, 2.0**30)])
    sine, cosine = apply(target, call, [(vector(f32, 16), x)], [np.float32] * 2, name="sin_cos")
    wide = x.astype(np.float64)
    assert np.abs(sine - np.sin(wide)).max() < 1e-7
    assert np.abs(cosine - np.cos(wide)).max() < 1e-7


def activate(k: Function, x: Value, kind: str) -> Value:
    return ACTIVATIONS[kind](k, x)


@pytest.mark.parametrize("target", TIERS)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations(target: str, kind: str) -> None:
    x = np.linspace(-30, 30, 1 << 12, dtype=np.float32)
    (got,) = apply(target, activate, [(vector(f32, 16), x)], [np.float32], kind=kind)
    np.testing.assert_allclose(got, REFERENCE[kind](x), rtol=2e-6, atol=1e-6)


def test_every_activation_of_the_op_is_there() -> None:
    assert set(ACTIVATIONS) == set(REFERENCE)
