"""The native code around kernels: worker threads, and the loop over the ops of a step.

A step runs on the calling thread, the leader, and on workers. The leader publishes one op at a time in a 64-bit word,
the ticket: ``generation | chunks | next chunk``. Whoever adds one to it owns the chunk it read, so a thread that comes
late can never take a chunk of the wrong op. An op is over when as many chunks are done as it has. Ops of one chunk
are run by the leader without telling anybody. Workers spin for a while after an op, then sleep on a futex.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from modelhost_cpu.language.function import Function
from modelhost_cpu.language.types import i32, i64, ptr, void
from modelhost_cpu.language.value import Value
from modelhost_cpu.machine import Target

TICKET, DONE, EPOCH, SLEEPERS, CURRENT, STARTED = range(0, 6 * 64, 64)
"""Byte offsets in the control block; each in a cache line of its own."""
CONTROL_BYTES = 6 * 64
OP_BYTES = 32
"""An op: function, slots, grain, chunks in a block of work."""
SLOT_BYTES = 32
"""How to make the content of a slot: index of a base, index of a size, scale, offset."""
_CHUNK_BITS = 24
_CHUNK_MASK = (1 << _CHUNK_BITS) - 1
_SPINS_BEFORE_YIELD = 4096
_NAP_MICROSECONDS = 100
_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129


class _Native(Function):
    """A function with atomics and system calls."""

    @property
    def _architecture(self) -> str:
        return self.target.triple.partition("-")[0]

    @property
    def _futex_number(self) -> int | None:
        return _FUTEX.get(self._architecture) if "linux" in self.target.triple else None

    def atomic_load(self, type_: ir.Type, pointer: Value, offset: int, order: str = "acquire") -> Value:
        align = 8 if type_ == i64 else 4
        return Value(self, self.builder.load_atomic((pointer + offset).raw, order, align, typ=type_))

    def atomic_store(self, value: Value, pointer: Value, offset: int) -> None:
        align = 8 if value.type == i64 else 4
        block, place = self.builder.block, (pointer + offset).raw
        self.builder._insert(ir.instructions.StoreAtomicInstr(block, value.raw, place, "seq_cst", align))

    def pause(self) -> None:
        if self._architecture == "x86_64":
            self.call("llvm.x86.sse2.pause", void)
        elif self._architecture == "aarch64":
            self.call("llvm.aarch64.hint", void, self.constant(i32, 1))

    def yield_thread(self) -> None:
        self.call("sched_yield", i32)

    def sleep(self, control: Value, epoch: Value) -> None:
        """Until somebody changes the epoch, or for a short while where there are no futexes."""
        if self._futex_number is None:
            self.call("usleep", i32, self.constant(i32, _NAP_MICROSECONDS))
        else:
            self._futex(control, _FUTEX_WAIT, epoch.to(i64, unsigned=True))

    def wake(self, control: Value) -> None:
        """Change the epoch and wake all who sleep."""
        self.atomic_add(control, EPOCH, self.constant(i32, 1))
        if self._futex_number is not None:
            self._futex(control, _FUTEX_WAKE, self.constant(i64, 1 << 30))

    def _futex(self, control: Value, operation: int, value: Value) -> None:
        number, zero = self.constant(i64, self._futex_number or 0), self.constant(i64, 0)
        self.call("syscall", i64, number, control + EPOCH, self.constant(i64, operation), value, zero, zero, zero)

    def split(self, ticket: Value) -> tuple[Value, Value]:
        """Next chunk and number of chunks."""
        return ticket & _CHUNK_MASK, (ticket >> _CHUNK_BITS) & _CHUNK_MASK

    def take_chunk(self, control: Value, scratch: Callable[[], Value]) -> Value:
        """Run one chunk of the published op if there is one left; whether there was.

        ``scratch`` is asked for once the chunk is owned: between steps the memory may move.
        """
        chunk, chunks = self.split(self.atomic_load(i64, control, TICKET))
        ran = self.variable(self.constant(i32, 0))
        with self.when(chunk < chunks):
            owned, total = self.split(self.atomic_add(control, TICKET, self.constant(i64, 1)))
            with self.when(owned < total):
                function = self.load(ptr, control, CURRENT, align=8)
                slots = self.load(ptr, control, CURRENT + 8, align=8)
                self.call_pointer(function, void, slots, owned, scratch())
                self.atomic_add(control, DONE, self.constant(i64, 1))
                ran.set(self.constant(i32, 1))
        return ran.value > 0


def build_driver(target: Target) -> ir.Module:
    """A module with the functions ``worker`` and ``run_step``."""
    module = ir.Module("driver")
    module.triple = target.triple
    _build_worker(module, target)
    _build_resolve(module, target)
    _build_step(module, target)
    return module


def _build_worker(module: ir.Module, target: Target) -> None:
    """``ptr worker(ptr record)``; a record is control block, scratch, spins before sleep."""
    k = _Native(module, "worker", {"record": ptr}, target, returns=ptr)
    record = k.arguments["record"]
    control, limit = k.load(ptr, record), k.load(i64, record, 16)
    k.atomic_add(control, STARTED, k.constant(i32, 1))
    spins = k.variable(k.constant(i64, 0))
    loop, idle = (k.raw.append_basic_block(name) for name in ("next", "idle"))
    k.builder.branch(loop)
    k.builder.position_at_end(loop)
    ran = k.take_chunk(control, lambda: k.load(ptr, record, 8))
    with k.when(ran):
        spins.set(k.constant(i64, 0))
    k.builder.cbranch(ran.raw, loop, idle)
    k.builder.position_at_end(idle)
    spins.add(k.constant(i64, 1))
    k.pause()
    with k.when(spins.value > limit):
        k.atomic_add(control, SLEEPERS, k.constant(i32, 1))
        epoch = k.atomic_load(i32, control, EPOCH, "seq_cst")
        chunk, chunks = k.split(k.atomic_load(i64, control, TICKET, "seq_cst"))
        with k.when(chunk >= chunks):
            k.sleep(control, epoch)
        k.atomic_add(control, SLEEPERS, k.constant(i32, -1))
        spins.set(k.constant(i64, 0))
    k.builder.branch(loop)


def _build_resolve(module: ir.Module, target: Target) -> None:
    """``void resolve(recipes, slots, count, bases, sizes)``: fill the slots of all ops."""
    names = {"recipes": ptr, "slots": ptr, "count": i64, "bases": ptr, "sizes": ptr}
    k = Function(module, "resolve", names, target)
    recipes, slots, count, bases, sizes = k.arguments.values()
    with k.loop(0, count) as place:
        recipe = recipes + place * SLOT_BYTES
        base, size, scale, offset = (k.load(i64, recipe, 8 * field, align=8) for field in range(4))
        value = k.load(i64, bases, base * 8) + k.load(i64, sizes, size * 8) * scale + offset
        k.store(value, slots, place * 8, align=8)
    k.ret()


def _build_step(module: ir.Module, target: Target) -> None:
    """``void run_step(control, scratch, ops, count, recipes, slots, slot_count, bases, sizes, times)``.

    ``times`` is null, or takes the cycle counter before each op and after the last.
    """
    pointers = ("control", "scratch", "ops", "recipes", "slots", "bases", "sizes", "times")
    k = _Native(module, "run_step", {**dict.fromkeys(pointers, ptr), "count": i64, "slot_count": i64}, target)
    control, scratch, ops, recipes, slots, bases, sizes, times, count, slot_count = k.arguments.values()
    k.call("resolve", void, recipes, slots, slot_count, bases, sizes)
    generation = k.variable(k.atomic_load(i64, control, TICKET) >> (2 * _CHUNK_BITS))
    timed = times.to_integer() > 0
    with k.loop(0, count) as place:
        with k.when(timed):
            k.store(_cycles(k), times, place * 8)
        op = ops + place * OP_BYTES
        function, arguments = k.load(ptr, op, align=8), k.load(ptr, op, 8, align=8)
        grain, columns = k.load(i64, op, 16, align=8), k.load(i64, op, 24, align=8)
        work = k.load(i64, arguments, align=8)
        chunks = (work + grain - 1) // grain * columns
        with k.when(chunks.equals(1)):
            k.call_pointer(function, void, arguments, k.constant(i64, 0), scratch)
        with k.when(chunks > 1):
            k.store(function, control, CURRENT, align=8)
            k.store(arguments, control, CURRENT + 8, align=8)
            k.atomic_store(k.constant(i64, 0), control, DONE)
            generation.set((generation.value + 1) & 0xFFFF)
            k.atomic_store((generation.value << (2 * _CHUNK_BITS)) | (chunks << _CHUNK_BITS), control, TICKET)
            with k.when(k.atomic_load(i32, control, SLEEPERS, "seq_cst") > 0):
                k.wake(control)
            _join(k, control, scratch, chunks)
    with k.when(timed):
        k.store(_cycles(k), times, count * 8)
    k.ret()


def _cycles(k: _Native) -> Value:
    return k.call("llvm.readcyclecounter", i64)


def _join(k: _Native, control: Value, scratch: Value, chunks: Value) -> None:
    """Run chunks until none is left, then wait for those of the others."""
    spins = k.variable(k.constant(i64, 0))
    take, wait, over = (k.raw.append_basic_block(name) for name in ("take", "wait", "over"))
    k.builder.branch(take)
    k.builder.position_at_end(take)
    k.builder.cbranch(k.take_chunk(control, lambda: scratch).raw, take, wait)
    k.builder.position_at_end(wait)
    k.pause()
    spins.add(k.constant(i64, 1))
    with k.when((spins.value % _SPINS_BEFORE_YIELD).equals(0)):
        k.yield_thread()
    k.builder.cbranch((k.atomic_load(i64, control, DONE) >= chunks).raw, over, wait)
    k.builder.position_at_end(over)
