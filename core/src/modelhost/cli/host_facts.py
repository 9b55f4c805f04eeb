"""Facts about this machine that help when a problem is reported."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from glob import glob
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_QUOTA_V2 = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
_ACCELERATORS = {
    "NVIDIA": ("/dev/nvidia[0-9]*", "/proc/driver/nvidia/version"),
    "AMD": ("/dev/kfd", "/sys/module/amdgpu/version"),
    "Intel NPU": ("/dev/accel/accel[0-9]*", "/sys/module/intel_vpu/version"),
    "render node": ("/dev/dri/renderD[0-9]*", ""),
}
"""Name -> (pattern of device files, file with the driver's version)."""
_NOTABLE = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "asimd", "asimddp", "i8mm", "sve")


def cpu_model() -> str:
    """The processor's name, or its kind where the system does not tell."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_features() -> str:
    """Instruction sets that kernels care about; empty where the system does not tell."""
    flags = set((_cpuinfo("flags") or _cpuinfo("Features") or "").split())
    return ", ".join(name for name in _NOTABLE if name in flags)


def cores() -> str:
    """Cores of the machine and, where they are fewer, those this process may use."""
    total = os.cpu_count() or 1
    limits = []
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < total:
        limits.append(f"{len(os.sched_getaffinity(0))} by affinity")
    quota = cpu_quota()
    if quota is not None:
        limits.append(f"{quota:.1f} by cgroup quota")
    return f"{total}" + (f", of which this process may use {' and '.join(limits)}" if limits else "")


def cpu_quota() -> float | None:
    """Cores that the cgroup (version 2 or 1) allows; ``None`` without a limit."""
    try:
        limit, period = _QUOTA_V2.read_text().split()
    except OSError:
        try:
            limit, period = _QUOTA_V1.read_text().strip(), _PERIOD_V1.read_text().strip()
        except OSError:
            return None
    return None if limit in {"max", "-1"} else int(limit) / int(period)


def _cpuinfo(key: str) -> str | None:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), None)


def accelerators() -> str:
    """Accelerators that the system has device files for. No driver is called, so none is initialised."""
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "Apple GPU"
    return ", ".join(_present()) or "none seen"


def _present() -> Iterator[str]:
    for name, (pattern, version_file) in _ACCELERATORS.items():
        if count := len(glob(pattern)):
            version = _driver_version(version_file)
            yield f"{count} {name}{f' (driver {version})' if version else ''}"


def _driver_version(file: str) -> str | None:
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, UnicodeDecodeError):
        return None
    match = re.search(r"\d+(?:\.\d+)+", text)
    return match[0] if match else None
