"""What the host is taken for. Machines other than this one are played by what LLVM says about them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from llvmlite import binding
from modelhost_cpu.machine import Isa, Target, aarch64_target, available_threads, host_target, select_target

from modelhost.api import ConfigError, UnsupportedError

_NAMES = (
    "64bit adx aes amx-bf16 amx-int8 amx-tile avx avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f "
    "avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vpopcntdq avxvnni bmi bmi2 cmov crc32 cx16 "
    "cx8 f16c fma fxsr gfni lzcnt mmx movbe pclmul popcnt sahf sha sse sse2 sse3 sse4.1 sse4.2 ssse3 vaes vpclmulqdq "
    "xsave"
)
SAPPHIRE_RAPIDS = frozenset(_NAMES.split())
X86_TIERS = [isa for isa in get_args(Isa) if isa != "auto"]
Machine = Callable[..., Target]


class _Kernel:
    """A C library whose ``syscall`` returns ``result``."""

    def __init__(self, result: int) -> None:
        self.result, self.calls = result, list[tuple[int, ...]]()

    def syscall(self) -> Any:
        def call(*arguments: int) -> int:
            self.calls.append(arguments)
            return self.result

        return call


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The host target when LLVM reports these features, and Linux answers so to the request for AMX."""

    def play(features: frozenset[str], triple: str = "x86_64-unknown-linux-gnu", amx: int = 0) -> Target:
        library = type("Library", (), {"syscall": _Kernel(amx).syscall()})
        monkeypatch.setattr(binding, "get_process_triple", lambda: triple)
        found = binding.FeatureMap({**dict.fromkeys(features, True), "xop": False})
        monkeypatch.setattr(binding, "get_host_cpu_features", lambda: found)
        monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
        monkeypatch.setattr(sys, "platform", "linux")
        host_target.cache_clear()
        return host_target()

    yield play
    host_target.cache_clear()


def _assembly(target: Target, source: str) -> str:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    options = {"cpu": target.cpu, "features": target.feature_string, "opt": 3}
    compiler = binding.Target.from_triple(target.triple).create_target_machine(**options)
    module = binding.parse_assembly(f'target triple = "{target.triple}"\n{source}')
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    passes = binding.create_pass_builder(compiler, tuning)
    passes.getModulePassManager().run(module, passes)
    return str(compiler.emit_assembly(module))


LOOP = """
define void @loop(ptr noalias %to, ptr noalias %from, i64 %count) {
entry:
  br label %body
body:
  %i = phi i64 [0, %entry], [%next, %body]
  %a = getelementptr float, ptr %from, i64 %i
  %b = getelementptr float, ptr %to, i64 %i
  %x = load float, ptr %a
  %y = load float, ptr %b
  %z = call float @llvm.fmuladd.f32(float %x, float %x, float %y)
  store float %z, ptr %b
  %next = add nuw i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %body, label %done
done:
  ret void
}
declare float @llvm.fmuladd.f32(float, float, float)
"""
DOT = """
define <4 x i32> @dot(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b) {
  %r = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b)
  ret <4 x i32> %r
}
declare <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32>, <16 x i8>, <16 x i8>)
"""


def test_importing_does_not_import_llvmlite() -> None:
    code = "import sys, modelhost_cpu.machine, modelhost_cpu.object_cache; print('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


_USE_FEATURES = """
import ctypes, struct
from llvmlite import binding
from modelhost_cpu.machine import host_target

INSTRUCTIONS = {
    "sse4.1": "pmulld %xmm0, %xmm1", "fma": "vfmadd231ps %ymm0, %ymm1, %ymm2", "f16c": "vcvtph2ps %xmm0, %ymm1",
    "avx2": "vpaddd %ymm0, %ymm1, %ymm2", "avxvnni": "{vex} vpdpbusd %ymm0, %ymm1, %ymm2",
    "avx512f": "vpaddd %zmm0, %zmm1, %zmm2", "avx512bw": "vpaddb %zmm0, %zmm1, %zmm2",
    "avx512vl": "vpaddd %ymm16, %ymm17, %ymm18", "avx512vnni": "vpdpbusd %zmm0, %zmm1, %zmm2",
    "avx512bf16": "vdpbf16ps %zmm0, %zmm1, %zmm2", "avx512fp16": "vaddph %zmm0, %zmm1, %zmm2",
    "amx-tile": "tilezero %tmm0", "amx-int8": "tdpbusd %tmm0, %tmm1, %tmm2",
    "amx-bf16": "tdpbf16ps %tmm0, %tmm1, %tmm2",
    "neon": "add v0.4s, v1.4s, v2.4s", "dotprod": "sdot v0.4s, v1.16b, v2.16b",
}
target = host_target()
lines = [line for feature, line in INSTRUCTIONS.items() if target.has(feature)]
if target.has("amx-tile"):
    lines = ["ldtilecfg ($0)", *lines, "tilerelease"]
binding.initialize_native_target()
binding.initialize_native_asmprinter()
binding.initialize_native_asmparser()
compiler = binding.Target.from_triple(target.triple).create_target_machine(
    cpu=target.cpu, features=target.feature_string, jit=True
)
module = binding.parse_assembly(
    'define void @use(ptr %p) { call void asm sideeffect "' + "\\\\0A".join(lines) + '", "r"(ptr %p) ret void }'
)
engine = binding.create_mcjit_compiler(module, compiler)
engine.finalize_object()
tiles = struct.pack("<BB14x8H16x8B8x", 1, 0, *[64] * 8, *[16] * 8)
ctypes.CFUNCTYPE(None, ctypes.c_char_p)(engine.get_function_address("use"))(tiles)
print("ran", len(lines))
"""


def test_every_feature_that_kernels_use_runs_here() -> None:
    """An instruction that the CPU or the operating system does not allow would kill the process."""
    result = subprocess.run([sys.executable, "-c", _USE_FEATURES], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout.split()[1]) >= 1


def test_llvm_knows_every_feature(capfd: pytest.CaptureFixture[str]) -> None:
    host = host_target()
    for target in (host, host.limited("baseline"), aarch64_target("dotprod", "i8mm")):
        assert "loop" in _assembly(target, LOOP)
    assert "not a recognized" not in capfd.readouterr().err


def test_features_are_those_of_llvm_whatever_the_name_of_the_cpu(machine: Machine) -> None:
    target = machine(SAPPHIRE_RAPIDS)
    assert target == Target("x86_64-unknown-linux-gnu", "x86-64-v4", SAPPHIRE_RAPIDS)
    assert target.has("amx-bf16", "avx512vnni") and not target.has("amx-bf16", "amx-fp16")
    assert target.feature_string.startswith("+64bit,+adx,+aes,+amx-bf16,")
    assert target.feature_string.endswith(",+xsave,-prefer-256-bit")


@pytest.mark.parametrize(
    ("missing", "lost", "cpu", "bits"),
    [
        ({"avx512vl"}, "avx512vnni", "x86-64-v3", 256),
        ({"avx2"}, "avxvnni", "x86-64-v2", 128),
        ({"avx"}, "fma", "x86-64-v2", 128),
        ({"sse4.2"}, "avx512f", "x86-64", 128),
        ({"amx-tile"}, "amx-int8", "x86-64-v4", 512),
    ],
)
def test_what_needs_an_absent_feature_is_absent(
    machine: Machine, missing: set[str], lost: str, cpu: str, bits: int
) -> None:
    target = machine(SAPPHIRE_RAPIDS - missing)
    assert (target.has(lost), target.cpu, target.vector_bits) == (False, cpu, bits)
    assert target == machine(SAPPHIRE_RAPIDS).without(*missing)


def test_avx10_does_not_bring_back_what_the_hypervisor_hides(machine: Machine) -> None:
    assert not machine((SAPPHIRE_RAPIDS - {"avx512bf16"}) | {"avx10.1"}).has("avx10.1")


@pytest.mark.parametrize("answer", [-1, 0])
def test_amx_depends_on_the_kernel(machine: Machine, answer: int) -> None:
    target = machine(SAPPHIRE_RAPIDS, amx=answer)
    assert [name for name in sorted(target.features) if name.startswith("amx")] == (
        [] if answer else ["amx-bf16", "amx-int8", "amx-tile"]
    )
    assert target.has("avx512vnni")


def test_the_kernel_is_asked_for_tile_data_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(SAPPHIRE_RAPIDS)
    kernel = _Kernel(0)
    library = type("Library", (), {"syscall": kernel.syscall()})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    host_target.cache_clear()
    assert host_target() is host_target()
    assert kernel.calls == [(158, 0x1023, 18)]


def test_no_amx_on_other_systems(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(SAPPHIRE_RAPIDS)
    monkeypatch.setattr(sys, "platform", "win32")
    host_target.cache_clear()
    assert not host_target().has("amx-int8")


@pytest.mark.parametrize(
    ("isa", "has", "lacks", "registers"),
    [
        ("amx", "amx-int8", "xop", "zmm"),
        ("avx512vnni", "avx512vnni", "amx-tile", "zmm"),
        ("avx512", "avx512bw", "avx512vnni", "zmm"),
        ("avx2vnni", "avxvnni", "avx512f", "ymm"),
        ("avx2", "fma", "avxvnni", "ymm"),
        ("baseline", "sse2", "sse3", "xmm"),
    ],
)
def test_tiers(machine: Machine, isa: Isa, has: str, lacks: str, registers: str) -> None:
    target = machine(SAPPHIRE_RAPIDS).limited(isa)
    assert target.has(has) and not target.has(lacks)
    assert target.limited(isa) == target
    assembly = _assembly(target, LOOP)
    assert next(name for name in ("zmm", "ymm", "xmm") if name in assembly) == registers


def test_each_tier_is_one_that_the_tiers_above_it_can_be_limited_to(machine: Machine) -> None:
    host = machine(SAPPHIRE_RAPIDS)
    for higher, lower in zip(("auto", "avx512vnni", "avx2vnni"), ("avx512vnni", "avx512", "avx2"), strict=True):
        assert host.limited(higher).limited(lower) == host.limited(lower)


def test_a_tier_that_the_machine_lacks(machine: Machine) -> None:
    target = machine(SAPPHIRE_RAPIDS).without("amx-tile", "avx512vnni")
    with pytest.raises(UnsupportedError) as error:
        target.limited("avx512vnni")
    assert str(error.value) == (
        "isa 'avx512vnni' needs what this CPU lacks, or what the operating system does not let this process use: "
        "avx512vnni. Choose one of: auto, avx512, avx2vnni, avx2, baseline"
    )
    with pytest.raises(UnsupportedError, match=r"Choose one of: auto, baseline$"):
        aarch64_target().limited("avx2")


@pytest.mark.parametrize("isa", X86_TIERS)
def test_the_environment_takes_the_place_of_the_setting(machine: Machine, isa: Isa) -> None:
    host = machine(SAPPHIRE_RAPIDS)
    assert select_target("auto", {"MODELHOST_CPU_ISA": isa}) == host.limited(isa)
    assert select_target(isa, {"MODELHOST_CPU_ISA": "avx2"}) == host.limited("avx2")
    assert select_target(isa, {"MODELHOST_CPU_ISA": ""}) == host.limited(isa)


def test_unknown_tiers() -> None:
    names = "amx, avx512vnni, avx512, avx2vnni, avx2, baseline"
    with pytest.raises(ConfigError) as error:
        select_target("auto", {"MODELHOST_CPU_ISA": "AVX2"})
    assert str(error.value) == f"MODELHOST_CPU_ISA must be one of auto, {names}, got 'AVX2'"
    with pytest.raises(ConfigError, match=r"isa must be one of auto, .* got 'sse'"):
        host_target().limited("sse")  # type: ignore[arg-type]


def test_arm_hosts(machine: Machine) -> None:
    linux = machine(frozenset({"neon", "fp-armv8", "sve", "sve2", "sm4"}), "aarch64-unknown-linux-gnu")
    assert (linux.cpu, linux.vector_bits, linux.has("sve2", "sm4")) == ("generic", 128, True)
    assert linux.without("sve").features == {"neon", "fp-armv8", "sm4"}
    assert linux.limited("baseline") == aarch64_target()
    assert machine(frozenset(), "arm64-apple-darwin23.1.0").has("neon", "dotprod", "fullfp16")


def test_other_machines_are_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedError, match="not for riscv64-unknown-linux-gnu; use another backend"):
        machine(frozenset(), "riscv64-unknown-linux-gnu")


def test_compiling_for_arm_from_anywhere() -> None:
    assert "fmla\tv" in _assembly(aarch64_target(), LOOP)
    assert "sdot\tv0.4s" in _assembly(aarch64_target("dotprod"), DOT)


class _System:
    """A sysfs and a /proc/self to read from."""

    def __init__(self, root: Path) -> None:
        self.system, self.process = root / "sys", root / "proc"

    def siblings(self, *groups: str) -> None:
        for group in groups:
            first, _, last = group.partition("-")
            for cpu in range(int(first), int(last) + 1) if last else map(int, group.split(",")):
                self._write(self.system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", group)

    def membership(self, *lines: str) -> None:
        self._write(self.process / "cgroup", "\n".join(lines))

    def cgroup(self, file: str, text: str) -> None:
        self._write(self.system / "fs/cgroup" / file, text)

    def threads(self, cpus: int = 8) -> int:
        return available_threads(affinity=range(cpus), system=self.system, process=self.process)

    @staticmethod
    def _write(file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


@pytest.fixture
def system(tmp_path: Path) -> _System:
    return _System(tmp_path)


@pytest.mark.parametrize(
    ("groups", "cpus", "cores"),
    [
        ([], 8, 8),
        (["0,4", "1,5", "2,6", "3,7"], 8, 4),
        (["0-1", "2-3", "4-5", "6-7"], 8, 4),
        (["0,4", "1,5", "2,6", "3,7"], 6, 4),
        (["0-1", "2-3"], 1, 1),
        (["0-3", "4-7"], 8, 2),
        (["0-1", "2"], 3, 2),
        (["0-1"], 0, 1),
    ],
)
def test_hardware_threads_of_a_core_count_once(system: _System, groups: list[str], cpus: int, cores: int) -> None:
    system.siblings(*groups)
    assert system.threads(cpus) == cores


@pytest.mark.parametrize(
    ("limit", "threads"),
    [
        ("max 100000", 8),
        ("150000 100000", 2),
        ("200000 100000", 2),
        ("20000 100000", 1),
        ("9900000 100000", 8),
        ("", 8),
        ("what", 8),
        ("0 0", 8),
    ],
)
def test_quota_of_a_version_2_cgroup(system: _System, limit: str, threads: int) -> None:
    system.membership("0::/user/job")
    system.cgroup("user/job/cpu.max", limit)
    assert system.threads() == threads


@pytest.mark.parametrize("where", ["cpu.max", "user/cpu.max"])
def test_limits_above_a_cgroup_hold_in_it(system: _System, where: str) -> None:
    system.membership("0::/user/job")
    system.cgroup("user/job/cpu.max", "600000 100000")
    system.cgroup(where, "300000 100000")
    assert system.threads() == 3


def test_in_a_container_the_mount_is_the_cgroup(system: _System) -> None:
    system.membership("0::/../../docker/8c1f")
    system.cgroup("cpu.max", "250000 100000")
    assert system.threads() == 3


@pytest.mark.parametrize(("quota", "threads"), [("-1", 8), ("450000", 5), ("1000", 1)])
@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
def test_quota_of_a_version_1_cgroup(system: _System, mount: str, quota: str, threads: int) -> None:
    system.membership("5:memory:/other", "4:cpu,cpuacct:/job", "0::/")
    system.cgroup(f"{mount}/job/cpu.cfs_quota_us", quota)
    system.cgroup(f"{mount}/job/cpu.cfs_period_us", "100000")
    assert system.threads() == threads


def test_quota_below_the_number_of_cores_only(system: _System) -> None:
    system.siblings("0,4", "1,5", "2,6", "3,7")
    system.membership("0::/")
    system.cgroup("cpu.max", "600000 100000")
    assert system.threads() == 4


def test_threads_of_this_process() -> None:
    assert 1 <= available_threads() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_affinity_of_this_process() -> None:
    code = (
        "import os; from modelhost_cpu.machine import available_threads; "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(available_threads())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "1"
