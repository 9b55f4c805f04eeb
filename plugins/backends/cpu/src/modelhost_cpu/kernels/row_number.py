"""Numbers of the rows of a set."""

from __future__ import annotations

from modelhost_cpu.language.types import i32, i64
from modelhost_cpu.language.value import Value
from modelhost_cpu.native.kernel import Kernel


def row_number(k: Kernel, row: Value) -> Value:
    """The number in the whole tensor of row ``row`` of a set; slot ``rows``, null where the set is all rows."""
    number, indices = k.variable(row), k.pointer("rows")
    with k.unless(indices.to_integer().equals(0)):
        number.set(k.load(i32, indices, row * 4).to(i64))
    return number.value
