"""Functions being built: memory, loops, conditions, intrinsics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llvmlite import ir

from . import types
from .types import f32, i8, i64, lanes_of, like, ptr, suffix_of, vector, void
from .value import Value

if TYPE_CHECKING:
    from modelhost_cpu.machine import Target


class Variable:
    """A value that changes in loops. LLVM keeps it in a register."""

    __slots__ = ("_function", "_place", "_type")

    def __init__(self, function: Function, initial: Value) -> None:
        self._function = function
        self._type = initial.type
        with function.builder.goto_entry_block():
            self._place = function.builder.alloca(self._type)
        self.set(initial)

    @property
    def value(self) -> Value:
        """What it holds now."""
        return Value(self._function, self._function.builder.load(self._place, typ=self._type))

    def set(self, value: Value) -> None:
        """Assign."""
        self._function.builder.store(value.raw, self._place)

    def add(self, value: Value) -> None:
        """``self += value``."""
        self.set(self.value + value)


class Function:
    """One function of a module. Its arguments are the attributes of :attr:`arguments`.

    Args:
        module: that it becomes part of.
        name: unique in the module.
        arguments: name to type.
        returns: type of the result.
        target: the CPU; decides which intrinsics may be used.
    """

    def __init__(
        self, module: ir.Module, name: str, arguments: Mapping[str, ir.Type], target: Target, returns: ir.Type = void
    ) -> None:
        self.module = module
        self.target = target
        self.raw = ir.Function(module, ir.FunctionType(returns, list(arguments.values())), name)
        self.raw.attributes.add("nounwind")
        self.raw.attributes.add("noinline")
        self.builder = ir.IRBuilder(self.raw.append_basic_block("entry"))
        self.arguments = {key: Value(self, raw) for key, raw in zip(arguments, self.raw.args, strict=True)}

    def constant(self, type_: ir.Type, number: float) -> Value:
        """``number`` in every lane of ``type_``."""
        value = [number] * type_.count if isinstance(type_, ir.VectorType) else number
        return Value(self, ir.Constant(type_, value))

    def vector(self, element: ir.Type, numbers: list[int] | list[float]) -> Value:
        """A vector of these constants."""
        return Value(self, ir.Constant(vector(element, len(numbers)), numbers))

    def zero(self, type_: ir.Type) -> Value:
        """Zero in every lane; the null pointer."""
        return Value(self, ir.Constant(type_, None))

    def integer(self, number: Value | int) -> Value:
        """``number`` as an ``i64`` value."""
        return number if isinstance(number, Value) else self.constant(i64, number)

    def variable(self, initial: Value) -> Variable:
        """A new variable."""
        return Variable(self, initial)

    def load(self, type_: ir.Type, pointer: Value, offset: Value | int = 0, *, align: int = 1) -> Value:
        """The value at ``pointer + offset`` bytes."""
        return Value(self, self.builder.load((pointer + offset).raw, align=align, typ=type_))

    def store(self, value: Value, pointer: Value, offset: Value | int = 0, *, align: int = 1) -> None:
        """Write ``value`` to ``pointer + offset`` bytes."""
        self.builder.store(value.raw, (pointer + offset).raw, align=align)

    def atomic_add(self, pointer: Value, offset: int, value: Value) -> Value:
        """Add to the integer at ``pointer + offset`` bytes; gives what it was. Sequentially consistent."""
        return Value(self, self.builder.atomic_rmw("add", (pointer + offset).raw, value.raw, "seq_cst"))

    def load_masked(self, type_: ir.Type, pointer: Value, count: Value) -> Value:
        """The first ``count`` lanes (``i64``) from memory, zeros in the others. Nothing beyond them is touched."""
        mask = self.first_lanes(lanes_of(type_), count)
        name = f"llvm.masked.load.{suffix_of(type_)}.p0"
        return self.call(name, type_, pointer, self.constant(types.i32, 1), mask, self.zero(type_))

    def store_masked(self, value: Value, pointer: Value, count: Value) -> None:
        """Write the first ``count`` lanes (``i64``) and nothing beyond them."""
        mask = self.first_lanes(lanes_of(value.type), count)
        name = f"llvm.masked.store.{suffix_of(value.type)}.p0"
        self.call(name, void, value, pointer, self.constant(types.i32, 1), mask)

    def first_lanes(self, lanes: int, count: Value) -> Value:
        """A vector of bits, the first ``count`` of them set."""
        return self.vector(types.i32, list(range(lanes))) < count.to(types.i32).splat(lanes)

    def call(self, name: str, returns: ir.Type, *arguments: Value) -> Value:
        """Call an intrinsic or an external function."""
        raw = [argument.raw for argument in arguments]
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(returns, [value.type for value in raw]), name)
        return Value(self, self.builder.call(function, raw))

    def call_pointer(self, pointer: Value, returns: ir.Type, *arguments: Value) -> Value:
        """Call the function at an address."""
        raw = [argument.raw for argument in arguments]
        kind = ir.FunctionType(returns, [value.type for value in raw])
        typed = self.builder.inttoptr(self.builder.ptrtoint(pointer.raw, i64), kind.as_pointer())
        return Value(self, self.builder.call(typed, raw))

    def _unary(self, intrinsic: str, x: Value, *others: Value) -> Value:
        return self.call(f"llvm.{intrinsic}.{suffix_of(x.type)}", x.type, x, *others)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """``x * y + z``, rounded once; twice where the CPU has no instruction for it (x86-64 before AVX2)."""
        fused = self.target.has("fma") or not self.target.is_x86
        return self._unary("fma", x, y, z) if fused else x * y + z

    def sqrt(self, x: Value) -> Value:
        """The square root."""
        return self._unary("sqrt", x)

    def abs(self, x: Value) -> Value:
        """The magnitude of a float."""
        return self._unary("fabs", x)

    def floor(self, x: Value) -> Value:
        """The largest integer that is not above ``x``."""
        return self._unary("floor", x)

    def round_even(self, x: Value) -> Value:
        """The nearest integer as a float; the even one on a tie."""
        return self._unary("nearbyint", x)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """``yes`` where ``condition`` is set, else ``no``."""
        return Value(self, self.builder.select(condition.raw, yes.raw, no.raw))

    def maximum(self, x: Value, y: Value) -> Value:
        """The greater one. Where one of the floats is NaN, ``y``."""
        return self.select(x > y, x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller one. Where one of the floats is NaN, ``y``."""
        return self.select(x < y, x, y)

    def _reduce(self, x: Value, combine: str) -> Value:
        """Halves combined until one lane is left: an order that does not depend on the CPU."""
        lanes = lanes_of(x.type)
        while lanes > 1:
            lanes //= 2
            low, high = x.shuffle(range(lanes)), x.shuffle(range(lanes, 2 * lanes))
            x = low + high if combine == "sum" else self.maximum(low, high)
        return x.lane(0)

    def sum(self, x: Value) -> Value:
        """The sum of the lanes, whose number is a power of two."""
        return self._reduce(x, "sum")

    def max(self, x: Value) -> Value:
        """The greatest lane."""
        return self._reduce(x, "max")

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """``for i in range(start, stop, step)``; gives the ``i64`` counter."""
        builder = self.builder
        first, last, stride = (self.integer(bound).raw for bound in (start, stop, step))
        before = builder.block
        head, body, done = (self.raw.append_basic_block(name) for name in ("loop", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        counter = builder.phi(i64)
        counter.add_incoming(first, before)
        builder.cbranch(builder.icmp_signed("<", counter, last), body, done)
        builder.position_at_end(body)
        yield Value(self, counter)
        counter.add_incoming(builder.add(counter, stride, flags=("nsw",)), builder.block)
        builder.branch(head)
        builder.position_at_end(done)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """The body runs where the bit is set."""
        with self.builder.if_then(condition.raw):
            yield

    @contextmanager
    def unless(self, condition: Value) -> Iterator[None]:
        """The body runs where the bit is not set."""
        with self.builder.if_then(self.builder.not_(condition.raw)):
            yield

    def prefetch(self, pointer: Value, *, write: bool = False) -> None:
        """Ask for the cache line at ``pointer``, to read it or to ``write`` to it."""
        one = self.constant(types.i32, 1)
        kind = self.constant(types.i32, int(write))
        self.call("llvm.prefetch.p0", void, pointer, kind, self.constant(types.i32, 3), one)

    def shared_bytes(self, name: str, content: bytes) -> Value:
        """A pointer to constant bytes, aligned to 64."""
        if name not in self.module.globals:
            data = ir.GlobalVariable(self.module, ir.ArrayType(i8, len(content)), name)
            data.initializer = ir.Constant(data.value_type, bytearray(content))
            data.global_constant, data.linkage, data.align = True, "private", 64
        raw = self.module.globals[name]
        return Value(self, self.builder.bitcast(raw, ptr))

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        if value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(value.raw)

    def floats(self, x: Value) -> Value:
        """Integers as ``f32``."""
        return Value(self, self.builder.sitofp(x.raw, like(x.type, f32)))
