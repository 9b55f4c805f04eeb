"""From IR to machine code, by way of the objects kept on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import count
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
_NUMBERS = count()
"""Of linked objects: a name cannot be used twice, not even when its first use was interrupted."""


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
        self._linker = llvm.create_lljit_compiler(target_machine(target), use_jit_link=True)
        self._libraries: list[Any] = []
        self._addresses: dict[str, int] = {}
        self._renew_lock()
        call_in_children(self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def load(self, functions: Sequence[str], recipe: str, build: Callable[[Target], ir.Module]) -> list[int]:
        """The addresses of functions of one module, which is compiled if it is not known yet.

        An object is linked into memory of its own, so that its code reaches its constants wherever that memory is.

        Args:
            functions: names that no other module has.
            recipe: text that with this package's source determines the IR.
            build: makes the IR; called when the object is not in the cache.
        """
        with self._lock:
            if functions[0] not in self._addresses:
                library = llvm.JITLibraryBuilder().add_object_img(self._object(recipe, build)).add_current_process()
                for name in functions:
                    library.export_symbol(name)
                self._libraries.append(library.link(self._linker, f"{functions[0]}.{next(_NUMBERS)}"))
                self._addresses |= {name: self._libraries[-1][name] for name in functions}
            return [self._addresses[name] for name in functions]

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

    def kernels(self, specs: Iterable[KernelSpec]) -> Mapping[KernelSpec, int]:
        """The addresses of kernels."""
        return {spec: self.load([spec.symbol], spec.recipe, spec.build)[0] for spec in dict.fromkeys(specs)}


@cache
def shared_compiler(target: Target, cached: bool) -> Compiler:
    """The compiler of this process for ``target``, with or without the cache on disk."""
    return Compiler(target, ObjectCache() if cached else None)
