"""Values with operators, so that a kernel reads like its formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from . import types
from .types import element_of, i32, i64, is_float, lanes_of, like, vector

if TYPE_CHECKING:
    from .function import Function

Operand = "Value | int | float"


class Value:
    """A number, a vector or a pointer inside a function being built.

    Integers are signed in comparisons and in conversions to float; ``//``, ``%`` and ``>>`` treat them as unsigned.
    The other operand of an operator may be a Python number. A pointer plus an integer moves by that many bytes.
    """

    __slots__ = ("function", "raw")

    def __init__(self, function: Function, raw: ir.Value) -> None:
        self.function = function
        self.raw = raw

    @property
    def type(self) -> ir.Type:
        """The LLVM type."""
        return self.raw.type

    def _wrap(self, raw: ir.Value) -> Value:
        return Value(self.function, raw)

    def _raw(self, other: Value | float) -> ir.Value:
        return other.raw if isinstance(other, Value) else self.function.constant(self.type, other).raw

    def _binary(self, other: Value | float, integer: str, floating: str | None = None) -> Value:
        name = floating if floating and is_float(self.type) else integer
        return self._wrap(getattr(self.function.builder, name)(self.raw, self._raw(other)))

    def __add__(self, other: Value | float) -> Value:
        if self.type == types.ptr:
            offset = other.raw if isinstance(other, Value) else i64(other)
            return self._wrap(self.function.builder.gep(self.raw, [offset], source_etype=types.i8))
        return self._binary(other, "add", "fadd")

    def __sub__(self, other: Value | float) -> Value:
        return self._binary(other, "sub", "fsub")

    def __mul__(self, other: Value | float) -> Value:
        return self._binary(other, "mul", "fmul")

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary(other, "fdiv")

    def __floordiv__(self, other: Value | int) -> Value:
        return self._binary(other, "udiv")

    def __mod__(self, other: Value | int) -> Value:
        return self._binary(other, "urem")

    def __and__(self, other: Value | int) -> Value:
        return self._binary(other, "and_")

    def __or__(self, other: Value | int) -> Value:
        return self._binary(other, "or_")

    def __xor__(self, other: Value | int) -> Value:
        return self._binary(other, "xor")

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary(other, "shl")

    def __rshift__(self, other: Value | int) -> Value:
        return self._binary(other, "lshr")

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> Value:
        return self.function.constant(self.type, other) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.function.constant(self.type, other) / self

    def __neg__(self) -> Value:
        return self._wrap(self.function.builder.fneg(self.raw)) if is_float(self.type) else 0 - self

    def _compare(self, operator: str, other: Value | float) -> Value:
        builder = self.function.builder
        compare = builder.fcmp_ordered if is_float(self.type) else builder.icmp_signed
        return self._wrap(compare(operator, self.raw, self._raw(other)))

    def __lt__(self, other: Value | float) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Value | float) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._compare(">=", other)

    def equals(self, other: Value | float) -> Value:
        """``self == other`` as a bit (or a vector of bits)."""
        return self._compare("==", other)

    def shift_right_signed(self, other: Value | int) -> Value:
        """Right shift that keeps the sign."""
        return self._binary(other, "ashr")

    def bits(self, type_: ir.Type) -> Value:
        """The same bits as another type of the same size."""
        return self._wrap(self.function.builder.bitcast(self.raw, type_))

    def to(self, element: ir.Type, *, unsigned: bool = False) -> Value:
        """Converted to another element type, lane by lane.

        Float to float rounds to nearest; float to integer truncates towards zero; integers are signed unless
        ``unsigned`` is set.
        """
        target, source = like(self.type, element), element_of(self.type)
        if source == element:
            return self
        return self._wrap(getattr(self.function.builder, _cast(source, element, unsigned))(self.raw, target))

    def to_integer(self) -> Value:
        """A pointer as an ``i64``."""
        return self._wrap(self.function.builder.ptrtoint(self.raw, i64))

    def splat(self, lanes: int) -> Value:
        """A vector with this number in every lane."""
        undefined = ir.Constant(vector(self.type, lanes), ir.Undefined)
        first = self.function.builder.insert_element(undefined, self.raw, i32(0))
        return self._wrap(self.function.builder.shuffle_vector(first, undefined, vector(i32, lanes)([0] * lanes)))

    def shuffle(self, lanes: Sequence[int], other: Value | None = None) -> Value:
        """The chosen lanes of this vector, numbered on into ``other``."""
        second = other.raw if other is not None else ir.Constant(self.type, ir.Undefined)
        indices = vector(i32, len(lanes))(list(lanes))
        return self._wrap(self.function.builder.shuffle_vector(self.raw, second, indices))

    def join(self, other: Value) -> Value:
        """The lanes of this vector, then those of ``other``."""
        return self.shuffle(range(2 * lanes_of(self.type)), other)

    def lane(self, index: Value | int) -> Value:
        """One lane of a vector."""
        return self._wrap(
            self.function.builder.extract_element(self.raw, index.raw if isinstance(index, Value) else i32(index))
        )

    def with_lane(self, index: int, element: Value) -> Value:
        """This vector with one lane replaced."""
        return self._wrap(self.function.builder.insert_element(self.raw, element.raw, i32(index)))


def _cast(source: ir.Type, target: ir.Type, unsigned: bool) -> str:
    wider = types.size_of(target) > types.size_of(source)
    match is_float(source), is_float(target):
        case True, True:
            return "fpext" if wider else "fptrunc"
        case True, False:
            return "fptoui" if unsigned else "fptosi"
        case False, True:
            return "uitofp" if unsigned else "sitofp"
        case _:
            return ("zext" if unsigned or source == types.i1 else "sext") if wider or source == types.i1 else "trunc"
