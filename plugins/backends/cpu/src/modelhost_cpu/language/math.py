"""Elementary functions of ``f32``, scalars and vectors of any number of lanes, as polynomials.

Every function reduces its argument to a short interval, as in Cody and Waite, Software Manual for the Elementary
Functions (1980), and in Moshier's Cephes library (``single/expf.c``, ``logf.c``, ``sinf.c``, ``tanhf.c``). The
polynomials are minimax fits of our own. Errors are in units in the last place (ulp) of the exact result and were
measured against float64 over arguments of all exponents, with and without fused multiplication; a result below the
smallest normal number, 1.2e-38, may be zero instead. NaN gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .function import Function
from .types import f32, f64, i32, i64, like
from .value import Value

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440054690583e-4
"""Their sum is the logarithm of two; the high part times a small integer is exact."""
_ROUNDING = 1.5 * 2.0**23
"""Added to a number below 2**22, leaves the nearest integer in the low bits."""
_ROUNDING_WIDE = 1.5 * 2.0**52
"""The same for ``f64``."""
_HALF_PI = (1.57079632673412561417, 6.07710050650619224932e-11)
"""Their sum is half of pi; the first part has 33 bits, so that its product with a number below 2**20 is exact."""
_LARGEST_EXPONENT = 88.72283
_SMALLEST_EXPONENT = -87.33654

_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368710055947304, 0.001381461275741458)
_EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.055503323674201965,
    0.00961843691766262,
    0.0013398875016719103,
    0.00015353361959569156,
)
_EXP2_COARSE = (0.6932829022407532, 0.2422109693288803, 0.05500893294811249)
_LOG = (
    0.3333333134651184,
    -0.2500081956386566,
    0.20001226663589478,
    -0.16623356938362122,
    0.14201758801937103,
    -0.13160182535648346,
    0.12761574983596802,
    -0.07634492963552475,
)
_TANH = (-0.3333328366279602, 0.13331490755081177, -0.05374349653720856, 0.020650586113333702, -0.005717044696211815)
_SIN = (-0.16666655242443085, 0.008332177996635437, -0.00019517233886290342)
_COS = (0.04166664555668831, -0.0013887315290048718, 2.4433082217001356e-05)
_ERF = (
    0.12837915122509003,
    -0.3761248290538788,
    0.11281681805849075,
    -0.02676110714673996,
    0.004984379280358553,
    -0.000594314478803426,
)
_LOG_ERFC = (
    -0.002097856253385544,
    -1.1194158792495728,
    -0.6518211960792542,
    -0.09039375931024551,
    0.015344911254942417,
    -0.001221691258251667,
)
"""The logarithm of ``1 - erf(x)`` from 0.9375 to 4."""


def polynomial(k: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """``sum(c * x**i)`` of the coefficients ``c`` in rising order, by Horner's rule."""
    *others, last = coefficients
    result = k.constant(x.type, last)
    for coefficient in reversed(others):
        result = k.fma(result, x, k.constant(x.type, coefficient))
    return result


def _nearest(k: Function, x: Value) -> tuple[Value, Value]:
    """The integer nearest to ``x``, as a float, and as a number whose low bits are the integer's."""
    shifted = x + _ROUNDING
    return shifted - _ROUNDING, shifted.bits(like(x.type, i32))


def _times_power(value: Value, exponent: Value) -> Value:
    """``value * 2**exponent`` where both and their product are normal numbers, of the exponent the low bits."""
    return (value.bits(exponent.type) + (exponent << 23)).bits(value.type)


def exp(k: Function, x: Value) -> Value:
    """``e**x`` within 1 ulp; exactly 1 at 0, 0 at minus infinity, infinity from 88.73 on."""
    count, exponent = _nearest(k, x * _LOG2_E)
    rest = k.fma(count, k.constant(x.type, -_LN2_LOW), k.fma(count, k.constant(x.type, -_LN2_HIGH), x))
    value = k.fma(polynomial(k, rest, _EXP), rest * rest, rest) + 1.0
    return _bounded(k, x, _times_power(value, exponent), _SMALLEST_EXPONENT, _LARGEST_EXPONENT)


def exp2(k: Function, x: Value) -> Value:
    """``2**x`` within 1.2 ulp; exact for integers, 0 below -126, infinity from 128 on."""
    count, exponent = _nearest(k, x)
    rest = x - count
    value = k.fma(polynomial(k, rest, _EXP2), rest, k.constant(x.type, 1.0))
    return _bounded(k, x, _times_power(value, exponent), -126.0, 127.99999)


def _bounded(k: Function, x: Value, value: Value, low: float, high: float) -> Value:
    """``value``, but zero for ``x`` below ``low``, infinity above ``high``, and NaN for NaN."""
    value = k.select(x <= high, value, x * float("inf"))
    return k.select(x < low, k.zero(x.type), value)


def exp2_of_negative(k: Function, x: Value, *, coarse: bool = False) -> Value:
    """``2**x`` for ``x <= 0``, minus infinity included, without the bounds and without NaN: for attention weights.

    Within 1 ulp above -126, and between 0 and 1.2e-38 below. What NaN gives is undefined. Where ``coarse`` is set the
    relative error is up to 1.1e-4, little beside what rounding to bfloat16 adds. Exact for integers either way.
    """
    x = k.maximum(x, k.constant(x.type, -127.0))
    count, exponent = _nearest(k, x)
    rest = x - count
    coefficients = _EXP2_COARSE if coarse else _EXP2
    return _times_power(k.fma(polynomial(k, rest, coefficients), rest, k.constant(x.type, 1.0)), exponent)


def log(k: Function, x: Value) -> Value:
    """The natural logarithm within 1 ulp; minus infinity at 0, NaN below, infinity at infinity."""
    small = x < 2.0**-126
    bits = k.select(small, x * 2.0**23, x).bits(like(x.type, i32))
    # the exponent is split off so that what remains lies between the roots of 1/2 and of 2
    above = bits - 0x3F3504F3
    exponent = k.floats(above.shift_right_signed(23)) - k.select(small, k.constant(x.type, 23.0), k.zero(x.type))
    fraction = ((above & 0x7FFFFF) + 0x3F3504F3).bits(x.type) - 1.0
    square = fraction * fraction
    tail = k.fma(exponent, k.constant(x.type, _LN2_LOW), fraction * square * polynomial(k, fraction, _LOG))
    value = k.fma(square, k.constant(x.type, -0.5), tail) + fraction
    value = k.fma(exponent, k.constant(x.type, _LN2_HIGH), value)
    value = k.select(x < float("inf"), value, x)
    value = k.select(x.equals(0.0), k.constant(x.type, float("-inf")), value)
    return k.select(x < 0.0, k.constant(x.type, float("nan")), value)


def log1p(k: Function, x: Value) -> Value:
    """``log(1 + x)`` within 2 ulp; what rounding takes from ``1 + x`` is added again (Kahan)."""
    whole = x + 1.0
    lost = (x - (whole - 1.0)) / whole
    value = log(k, whole)
    return k.select(k.abs(value) < float("inf"), value + lost, value)


def softplus(k: Function, x: Value) -> Value:
    """``log(1 + e**x)`` within 2 ulp."""
    tail = log1p(k, exp(k, -k.abs(x)))
    return k.maximum(k.zero(x.type), x) + tail


def sigmoid(k: Function, x: Value) -> Value:
    """``1 / (1 + e**-x)`` within 2.5 ulp."""
    return 1.0 / (exp(k, -x) + 1.0)


def tanh(k: Function, x: Value) -> Value:
    """The hyperbolic tangent within 2 ulp; odd."""
    size = k.abs(x)
    square = x * x
    near = k.fma(polynomial(k, square, _TANH), square * x, x)
    far = 1.0 - 2.0 / (exp(k, size + size) + 1.0)
    return k.select(size < 0.625, near, with_sign_of(k, far, x))


def erf(k: Function, x: Value) -> Value:
    """The error function within 2 ulp; odd."""
    size = k.abs(x)
    near = k.fma(polynomial(k, x * x, _ERF), x, x)
    bounded = k.minimum(k.constant(x.type, 4.0), size)
    far = 1.0 - exp(k, polynomial(k, bounded, _LOG_ERFC))
    far = k.select(x.equals(x), far, x)
    return k.select(size < 0.9375, near, with_sign_of(k, far, x))


def with_sign_of(k: Function, magnitude: Value, sign: Value) -> Value:
    """``magnitude``, which is not negative, with the sign of ``sign``."""
    integer = like(sign.type, i32)
    return (magnitude.bits(integer) | (sign.bits(integer) & -0x80000000)).bits(magnitude.type)


def sin_cos(k: Function, x: Value) -> tuple[Value, Value]:
    """Sine and cosine of angles in radians, within 1e-7 for magnitudes up to 2**30.

    The angle is reduced in float64 by the nearest multiple of pi / 2.
    """
    wide = x.to(f64)
    shifted = wide * (2.0 / math.pi) + _ROUNDING_WIDE
    count, quarter = shifted - _ROUNDING_WIDE, shifted.bits(like(x.type, i64)).to(i32)
    for part in _HALF_PI:
        wide = k.fma(count, k.constant(wide.type, -part), wide)
    rest = wide.to(f32)
    square = rest * rest
    sine = k.fma(polynomial(k, square, _SIN), square * rest, rest)
    cosine = k.fma(polynomial(k, square, (-0.5, *_COS)), square, k.constant(x.type, 1.0))
    odd = (quarter & 1).equals(1)
    first, second = k.select(odd, cosine, sine), k.select(odd, sine, cosine)
    return _negated(k, first, quarter & 2), _negated(k, second, (quarter + 1) & 2)


def _negated(k: Function, x: Value, two: Value) -> Value:
    """``x``, negated where ``two`` is 2 and not where it is 0."""
    return (x.bits(two.type) ^ (two << 30)).bits(x.type)
