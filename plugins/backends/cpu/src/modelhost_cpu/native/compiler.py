"""From IR to machine code, by way of the objects kept on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from modelhost_cpu.machine import Target
from modelhost_cpu.object_cache import ObjectCache, object_key

from .fork import call_in_children
from .kernel import KernelSpec

if TYPE_CHECKING:
    from llvmlite import ir

_SPEED_LEVEL = 2
_IMPORTED = time.time()


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def source_digest() -> str | None:
    """A hash of this package's source, which with a kernel's recipe determines its IR.

    ``None`` when a file has changed since this module was imported, so that what runs may be older than the files.
    """
    package = Path(__file__).parent.parent
    digest = sha256()
    for file in sorted(package.rglob("*.py")):
        if file.stat().st_mtime > _IMPORTED:
            return None
        digest.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def target_machine(target: Target) -> Any:
    """LLVM's code generator for ``target``, which may be of another architecture than the host's."""
    _initialize()
    if target.triple != llvm.get_default_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    kind = llvm.Target.from_triple(target.triple)
    return kind.create_target_machine(
        cpu=target.cpu, features=target.feature_string, opt=_SPEED_LEVEL, reloc="pic", codemodel="default"
    )


def emit_object(module: ir.Module, target: Target) -> bytes:
    """Optimise ``module`` and generate a relocatable object."""
    machine = target_machine(target)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED_LEVEL)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    content: bytes = machine.emit_object(parsed)
    return content


class Compiler:
    """Makes kernels callable. Objects are compiled once for each CPU and kept in a cache.

    Compiled code stays in memory as long as the compiler, and threads run in it: see :func:`shared_compiler`.

    Args:
        target: the host.
        cache: of objects; ``None`` to compile anew.
    """

    def __init__(self, target: Target, cache: ObjectCache | None) -> None:
        _initialize()
        self.target = target
        self._cache = cache
        empty = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(empty, target_machine(target))
        self._symbols: set[str] = set()
        self._renew_lock()
        call_in_children(self._renew_lock)
        self._objects: list[Any] = []

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def load(self, name: str, recipe: str, build: Callable[[Target], ir.Module]) -> None:
        """Make the functions of one module available.

        Args:
            name: of the module; loading a name again does nothing.
            recipe: text that with this package's source determines the IR.
            build: makes the IR; called when the object is not in the cache.
        """
        with self._lock:
            if name in self._symbols:
                return
            content = self._object(recipe, build)
            self._objects.append(llvm.ObjectFileRef.from_data(content))
            self._engine.add_object_file(self._objects[-1])
            self._symbols.add(name)

    def _object(self, recipe: str, build: Callable[[Target], ir.Module]) -> bytes:
        digest = source_digest()
        if self._cache is None or digest is None:
            return emit_object(build(self.target), self.target)
        key = object_key(self.target, recipe, digest)
        content = self._cache.get(key)
        if content is None:
            content = emit_object(build(self.target), self.target)
            self._cache.put(key, content)
        return content

    def address(self, symbol: str) -> int:
        """Where a loaded function is."""
        with self._lock:
            self._engine.finalize_object()
            return int(self._engine.get_function_address(symbol))

    def kernels(self, specs: Iterable[KernelSpec]) -> Mapping[KernelSpec, int]:
        """The addresses of kernels."""
        wanted = list(dict.fromkeys(specs))
        for spec in wanted:
            self.load(spec.symbol, spec.recipe, spec.build)
        return {spec: self.address(spec.symbol) for spec in wanted}


@cache
def shared_compiler(target: Target, cached: bool) -> Compiler:
    """The compiler of this process for ``target``, with or without the cache on disk."""
    return Compiler(target, ObjectCache() if cached else None)
