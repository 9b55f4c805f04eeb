"""The activations of :data:`modelhost.graph.ops.elementwise.ACTIVATIONS`, for vectors of any number of lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.math import erf, exp, sigmoid, softplus
from modelhost_cpu.language.value import Value

Activation = Callable[[Function, Value], Value]


def silu(k: Function, x: Value) -> Value:
    """``x * sigmoid(x)``, by one division."""
    return x / (exp(k, -x) + 1.0)


def gelu(k: Function, x: Value) -> Value:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    half = x * 0.5
    return k.fma(half, erf(k, x * math.sqrt(0.5)), half)


def gelu_tanh(k: Function, x: Value) -> Value:
    """``x / 2 * (1 + tanh(y))`` with ``y = sqrt(2 / pi) * (x + 0.044715 * x**3)``, as ``x * sigmoid(2 * y)``."""
    factor = 2.0 * math.sqrt(2.0 / math.pi)
    cubic = k.fma(x * x, k.constant(x.type, 0.044715 * factor), k.constant(x.type, factor))
    return x / (exp(k, -(x * cubic)) + 1.0)


def relu(k: Function, x: Value) -> Value:
    """``max(x, 0)``."""
    return k.maximum(k.zero(x.type), x)


ACTIVATIONS: Mapping[str, Activation] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": relu,
    "sigmoid": sigmoid,
    "softplus": softplus,
}
