"""Transposing weights without decoding them."""

from __future__ import annotations

import numpy as np
import pytest

from modelhost.api import WeightError
from modelhost.testing.arrays import random_weight


@pytest.mark.parametrize("encoding", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 4), (4, 1)])
def test_values(encoding: str, shape: tuple[int, int]) -> None:
    weight = random_weight("w", shape, encoding)
    turned = weight.transposed()
    assert (turned.shape, turned.nbytes, turned.encoding) == (shape[::-1], weight.nbytes, encoding)
    assert np.array_equal(turned.dequantize(), weight.dequantize().T)
    assert np.array_equal(turned.transposed().dequantize(), weight.dequantize())


def test_rows_of_a_transposed_weight() -> None:
    weight = random_weight("w", (3, 5), "f16")
    assert np.array_equal(weight.transposed().rows(slice(1, 4)).dequantize(), weight.dequantize().T[1:4])


@pytest.mark.parametrize("encoding", ["q8_0", "q4_0", "q5_1"])
def test_block_formats_are_refused(encoding: str) -> None:
    with pytest.raises(WeightError) as error:
        random_weight("w", (4, 64), encoding).transposed()
    assert str(error.value) == f"{encoding} tensor 'w' of shape (4, 64) cannot be transposed"


def test_vectors_are_refused() -> None:
    with pytest.raises(WeightError, match=r"^f32 tensor 'w' of shape \(4,\) cannot be transposed$"):
        random_weight("w", (4,)).transposed()
