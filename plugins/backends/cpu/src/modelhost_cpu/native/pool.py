"""The pool of native threads that steps run on."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api import UnsupportedError

from .driver import CONTROL_BYTES, STARTED, build_driver
from .fork import call_in_children
from .memory import aligned_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from .compiler import Compiler

    Int = npt.NDArray[np.int64]

_PAGE = 4096
_SPINS = 20_000
_START_SECONDS = 10.0
_POINTER = ctypes.c_void_p


def _keep_for_ever(memory: object) -> None:
    """Threads that still spin while the interpreter ends read it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


class ThreadPool:
    """Threads that never enter Python. The thread that runs a step takes part in it.

    Args:
        compiler: makes the native code.
        threads: that compute, the calling one included.

    Raises:
        UnsupportedError: the system gives no more threads.
    """

    def __init__(self, compiler: Compiler, threads: int) -> None:
        self._worker, run_step = compiler.load(["worker", "run_step"], "driver", build_driver)
        self.threads = threads
        self._compiler = compiler  # the threads run in its code
        self._renew_lock()
        call_in_children(self._renew_lock)
        self._scratch_bytes = 0
        self._scratch = aligned_bytes(0)
        signature = ctypes.CFUNCTYPE(None, *[_POINTER] * 8, ctypes.c_int64, ctypes.c_int64)
        self._run_step = signature(run_step)
        self._start()

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def reserve_scratch(self, nbytes: int) -> None:
        """Give every thread at least this much memory."""
        with self._lock:
            if nbytes > self._scratch_bytes:
                self._grow_scratch(nbytes)

    def _grow_scratch(self, nbytes: int) -> None:
        """The size is noted last: an interrupt before leaves it to the next call."""
        size = -(-nbytes // _PAGE) * _PAGE
        scratch = aligned_bytes(self.threads * size, _PAGE)
        for index, record in enumerate(self._records, 1):
            record[1] = scratch.ctypes.data + index * size
        self._scratch, self._scratch_bytes = scratch, size

    def _start(self) -> None:
        self._process = os.getpid()
        self._control = aligned_bytes(CONTROL_BYTES)
        self._records = [self._record(index) for index in range(1, self.threads)]
        for memory in (self._control, *self._records):
            _keep_for_ever(memory)
        self._handles = [self._create(record) for record in self._records]
        self._await_start()

    def _record(self, index: int) -> Int:
        scratch = self._scratch.ctypes.data + index * self._scratch_bytes
        return np.array([self._control.ctypes.data, scratch, _SPINS], np.int64)

    def _create(self, record: Int) -> ctypes.c_void_p:
        create = ctypes.CDLL(None).pthread_create
        handle, entry = _POINTER(), _POINTER(self._worker)
        if create(ctypes.byref(handle), None, entry, _POINTER(record.ctypes.data)):
            raise UnsupportedError(f"cannot start {self.threads} threads; use fewer with --threads")
        return handle

    def _await_start(self) -> None:
        started = self._control[STARTED : STARTED + 4].view(np.int32)
        deadline = time.monotonic() + _START_SECONDS
        while started[0] < len(self._handles):
            if time.monotonic() > deadline:
                raise UnsupportedError(f"{self.threads} threads did not start; use fewer with --threads")
            time.sleep(0)

    def run(self, ops: Int, recipes: Int, slots: Int, bases: Int, sizes: Int, times: Int | None = None) -> None:
        """Run all ops in order; returns when the last is done.

        Args:
            ops: int64 ``[ops, 4]``: address of the kernel, of its slots, grain, chunks in a block of work.
            recipes: int64 ``[slots, 4]``: index of a base, of a size, scale, offset.
            slots: int64 ``[slots]``, filled with ``base + size * scale + offset``.
            bases: int64, addresses; the first is 0.
            sizes: int64; the first is 0.
            times: int64 ``[ops + 1]``, filled with the cycle counter before every op and after the last.
        """
        with self._lock:
            self._run(ops, recipes, slots, bases, sizes, times)

    def _run(self, ops: Int, recipes: Int, slots: Int, bases: Int, sizes: Int, times: Int | None) -> None:
        if self._process != os.getpid():
            self._start()
        arrays: Sequence[Int] = (ops, recipes, slots, bases, sizes)
        pointers = [array.ctypes.data for array in arrays]
        self._run_step(
            self._control.ctypes.data,
            self._scratch.ctypes.data,
            *pointers,
            None if times is None else times.ctypes.data,
            len(ops),
            len(slots),
        )


@cache
def shared_pool(compiler: Compiler, threads: int) -> ThreadPool:
    """The pool of this process with so many threads. Its threads sleep while no step runs, and never end."""
    return ThreadPool(compiler, threads)
