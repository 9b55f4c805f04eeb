"""A program: takes the address space but for single pages and what lies far from them, then compiles and runs a model.

Memory for more than a page is then at least eight gigabytes away from memory for one.
"""

from __future__ import annotations

import ctypes

from modelhost_cpu.backend import CpuBackend
from modelhost_cpu.settings import CpuSettings

from modelhost.testing.arrays import RandomWeights
from modelhost.testing.op_cases import op_cases

_PAGE = 4096
_RESERVED = 8 << 30
_HOLES = 400
_PRIVATE_WITHOUT_RESERVE = 0x22 | 0x4000


def fragment() -> None:
    """Reserve addresses below everything else and leave holes of a page at their upper end."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_uint64
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]

    def reserve(size: int) -> int:
        return int(library.mmap(None, size, 0, _PRIVATE_WITHOUT_RESERVE, -1, 0))

    start = reserve(_RESERVED)
    for size in (1 << 20, 1 << 16, _PAGE):
        while reserve(size) > start:
            pass
    for hole in range(_HOLES):
        library.munmap(start + _RESERVED - _PAGE * (2 * hole + 1), _PAGE)


def main() -> None:
    backend = CpuBackend(dtype="float32", settings=CpuSettings(threads=2, object_cache=False))
    cases = [case for case in op_cases() if case.op.name in ("rope_table", "attention")][:4]
    fragment()
    for case in cases:
        graph = case.graph("float32")
        executable = backend.compile(graph, RandomWeights(case.encodings), case.paging.layout(graph))
        executable.run(case.paging.inputs(graph, case.steps[0]))
    print("ran", len(cases))


if __name__ == "__main__":
    main()
