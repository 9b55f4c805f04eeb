"""What the host CPU is: the target that LLVM compiles for, and how many threads the process has cores for.

A target's CPU name is always a level of the x86-64 psABI or ``generic``: the exact name that LLVM detects can be wrong,
and a name carries features that a hypervisor or the operating system may have taken away. Everything above the level
is listed feature by feature.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from modelhost.api import ConfigError, UnsupportedError

Isa = Literal["auto", "amx", "avx512vnni", "avx512", "avx2vnni", "avx2", "baseline"]
"""Names of instruction set tiers, from all that the machine has down to what every machine of its kind has."""
ISA_VARIABLE = "MODELHOST_CPU_ISA"

_LEVEL_1 = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_LEVEL_2 = _LEVEL_1 | {"crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
_LEVEL_3 = _LEVEL_2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_LEVEL_4 = _LEVEL_3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_X86_LEVELS = {"x86-64-v4": _LEVEL_4, "x86-64-v3": _LEVEL_3, "x86-64-v2": _LEVEL_2, "x86-64": _LEVEL_1}
_ARM_BASELINE = frozenset({"fp-armv8", "neon"})
_APPLE_M1 = _ARM_BASELINE | {"aes", "crc", "dotprod", "fullfp16", "lse", "rcpc", "sha2"}

_X86_NEEDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("avx", frozenset({"sse4.2"})),
    *((name, frozenset({"avx"})) for name in ("avx2", "f16c", "fma", "vpclmulqdq", "xop")),
    *((name, frozenset({"avx2"})) for name in ("avxifma", "avxneconvert", "avxvnni", "sha512", "sm3", "sm4", "vaes")),
    ("avx512", _LEVEL_4),
    ("amx-", frozenset({"amx-tile"})),
    ("amx-avx512", _LEVEL_4),
)
"""What LLVM switches on along with a feature whose name starts so; AVX-512 counts only as the whole of level 4."""
_ARM_NEEDS = (("sve", frozenset({"sve"})), ("sme", frozenset({"sme"})))

_VNNI = _LEVEL_4 | {"avx512vnni"}
_AFTER_LEVEL_4 = ("bf16", "bitalg", "fp16", "ifma", "vbmi", "vnni", "vp2intersect", "vpopcntdq")
_TIERS: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "amx": (_VNNI | {"amx-tile", "amx-int8", "amx-bf16"}, ()),
    "avx512vnni": (_VNNI, ("amx-",)),
    "avx512": (_LEVEL_4, ("amx-", "avxvnni", *(f"avx512{name}" for name in _AFTER_LEVEL_4))),
    "avx2vnni": (_LEVEL_3 | {"avxvnni"}, ("amx-", "avx512")),
    "avx2": (_LEVEL_3, ("amx-", "avx512", "avxvnni")),
}
"""Tier: the features that it needs, and the beginnings of the names of those that it leaves out."""


@dataclass(frozen=True, slots=True)
class Target:
    """What code is compiled for. ``cpu`` implies no feature that is not in ``features``.

    Attributes:
        triple: the LLVM target triple.
        cpu: LLVM's name of the CPU.
        features: LLVM's names of what the CPU has, such as ``"avx512vnni"``, ``"amx-bf16"`` or ``"neon"``.
    """

    triple: str
    cpu: str
    features: frozenset[str]

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def vector_bits(self) -> int:
        """Width of the widest vectors that kernels use: 512, 256 or 128."""
        if self.features >= _LEVEL_4:
            return 512
        return 256 if self.features >= _LEVEL_3 else 128

    @property
    def feature_string(self) -> str:
        """The features as LLVM wants them: every one, in alphabetical order, and the use of 512-bit vectors."""
        names = [f"+{name}" for name in sorted(self.features)]
        return ",".join([*names, "-prefer-256-bit"] if self.vector_bits == 512 else names)

    def has(self, *names: str) -> bool:
        """Whether all of these features are there."""
        return self.features.issuperset(names)

    def without(self, *names: str) -> Target:
        """The same without these features and without those that need them.

        Taking away one of the five parts of AVX-512 that x86-64-v4 has takes away AVX-512.
        """
        return _target(self.triple, self.features.difference(names))

    def limited(self, isa: Isa) -> Target:
        """The same with the features of a tier only.

        ``amx`` is AMX with int8 and bfloat16 on top of ``avx512vnni``; ``avx512`` is x86-64-v4, without dot products;
        ``avx2vnni`` is ``avx2``, which is x86-64-v3, with AVX-VNNI; ``baseline`` is x86-64, or Armv8 with NEON.

        Raises:
            ConfigError: there is no such tier.
            UnsupportedError: the target lacks features of the tier.
        """
        if isa not in get_args(Isa):
            raise ConfigError(f"isa must be one of {', '.join(get_args(Isa))}, got {isa!r}")
        if isa == "auto":
            return self
        if isa == "baseline":
            return _target(self.triple, self.features & (_LEVEL_1 if self.is_x86 else _ARM_BASELINE))
        needed, left_out = _TIERS[isa]
        if lacking := needed - self.features:
            raise UnsupportedError(
                f"isa {isa!r} needs what this CPU lacks, or what the operating system does not let this process use: "
                f"{', '.join(sorted(lacking))}. Choose one of: {', '.join(self._tiers())}"
            )
        return _target(self.triple, frozenset(name for name in self.features if not name.startswith(left_out)))

    def _tiers(self) -> Iterator[str]:
        yield "auto"
        yield from (isa for isa, (needed, _) in _TIERS.items() if needed <= self.features)
        yield "baseline"


@cache
def host_target() -> Target:
    """This machine, with all that the operating system lets the process use. It asks Linux for the use of AMX.

    Raises:
        UnsupportedError: the machine is neither x86-64 nor 64-bit Arm.
    """
    from llvmlite import binding

    triple = binding.get_process_triple()
    features = frozenset(name for name, present in binding.get_host_cpu_features().items() if present)
    if triple.startswith("x86_64"):
        if "amx-tile" in features and not _request_amx():
            features -= {"amx-tile"}
        return _target(triple, features | _LEVEL_1)
    if triple.startswith(("aarch64", "arm64")):
        return _target(triple, features | (_APPLE_M1 if "apple" in triple else _ARM_BASELINE))
    raise UnsupportedError(f"kernels can be compiled for x86_64 and aarch64, not for {triple}; use another backend")


def select_target(isa: Isa = "auto", environment: Mapping[str, str] | None = None) -> Target:
    """The host limited to tier ``isa``, or to the one that the environment variable ``MODELHOST_CPU_ISA`` names.

    Raises:
        ConfigError: there is no such tier.
        UnsupportedError: the machine lacks what the tier needs, or is neither x86-64 nor 64-bit Arm.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(ISA_VARIABLE)
    if named and named not in get_args(Isa):
        raise ConfigError(f"{ISA_VARIABLE} must be one of {', '.join(get_args(Isa))}, got {named!r}")
    return host_target().limited(named or isa)  # type: ignore[arg-type]


def aarch64_target(*features: str) -> Target:
    """A 64-bit Arm machine with Linux, NEON and ``features``, to compile for on another machine."""
    return _target("aarch64-unknown-linux-gnu", _ARM_BASELINE.union(features))


def available_threads(
    *,
    affinity: Iterable[int] | None = None,
    system: Path = Path("/sys"),
    process: Path = Path("/proc/self"),
) -> int:
    """Physical cores that this process may use, at least 1: what its affinity and its cgroup's quota allow.

    Hardware threads of one core count once; a quota is rounded up. Where the system does not say which hardware
    threads share a core (macOS, Windows), each logical CPU counts.

    Args:
        affinity: numbers of the logical CPUs that the process may run on; those of the calling thread by default.
        system: where sysfs is mounted.
        process: the process's directory in procfs.
    """
    cores = _count_cores(_affinity() if affinity is None else affinity, system / "devices" / "system" / "cpu")
    quota = min(_quotas(system / "fs" / "cgroup", process / "cgroup"), default=math.inf)
    return cores if quota >= cores else max(1, math.ceil(quota))


def _target(triple: str, features: frozenset[str]) -> Target:
    """A target without features whose prerequisites are absent, so that LLVM switches on no other ones."""
    x86 = triple.startswith("x86_64")
    # AVX10 is a version number: LLVM reads it as a promise of many features, each of which is listed by itself
    features = frozenset(name for name in features if not name.startswith("avx10."))
    while missing := {name for name in features if not features >= _needed(name, _X86_NEEDS if x86 else _ARM_NEEDS)}:
        features -= missing
    levels = (level for level, implied in _X86_LEVELS.items() if implied <= features)
    return Target(triple, next(levels, "x86-64") if x86 else "generic", features)


def _needed(name: str, rules: Iterable[tuple[str, frozenset[str]]]) -> frozenset[str]:
    return frozenset().union(*(needed for prefix, needed in rules if name.startswith(prefix)))


def _request_amx() -> bool:
    """Ask Linux for the use of AMX tiles in this process and the threads that it starts later.

    Source: Documentation/arch/x86/xstate.rst of the Linux kernel.
    """
    if not sys.platform.startswith("linux"):
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    syscall = ctypes.CDLL(None).syscall
    syscall.argtypes, syscall.restype = [ctypes.c_long] * 3, ctypes.c_long
    return bool(syscall(arch_prctl, request_permission, tile_data) == 0)


def _affinity() -> Iterable[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _count_cores(cpus: Iterable[int], directory: Path) -> int:
    left, cores = set(cpus), 0
    while left:
        cpu = left.pop()
        left -= _siblings(directory / f"cpu{cpu}" / "topology" / "thread_siblings_list")
        cores += 1
    return max(1, cores)


def _siblings(file: Path) -> set[int]:
    """The numbers in a list such as ``0-1,8``; none when it cannot be read."""
    numbers: set[int] = set()
    try:
        for part in file.read_text().split(","):
            first, _, last = part.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return set()
    return numbers


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """The CPU limits, in CPUs, of the process's cgroups and of those above them, in both versions of cgroups."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for directory in _upwards(mount, path):
                yield from _ratio(directory, "cpu.max")
        elif "cpu" in controllers.split(","):
            for directory in (*_upwards(mount / "cpu", path), *_upwards(mount / controllers, path)):
                yield from _ratio(directory, "cpu.cfs_quota_us", "cpu.cfs_period_us")


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The directory of a cgroup and those above it. In a container the path can be one that exists outside only."""
    inside = mount / path.lstrip("/")
    yield inside
    while inside != mount:
        inside = inside.parent
        yield inside


def _ratio(directory: Path, *files: str) -> Iterator[float]:
    """Quota by period, which are in one file or in two. Nothing when there is no limit."""
    try:
        quota, period = (int(word) for file in files for word in (directory / file).read_text().split())
    except (OSError, ValueError):
        return
    if quota > 0 and period > 0:
        yield quota / period
