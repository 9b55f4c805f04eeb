"""The settings of this backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt

from .machine import Isa


class CpuSettings(BaseModel):
    """How the backend uses the machine.

    Attributes:
        threads: that compute; the physical cores that the process may use when ``None``.
        deterministic: compute prompt and generated tokens by the same kernels.
        isa: the most that may be used of the CPU's instruction sets; the environment's ``MODELHOST_CPU_ISA`` wins.
        object_cache: keep compiled kernels on disk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: PositiveInt | None = None
    deterministic: bool = False
    isa: Isa = "auto"
    object_cache: bool = True
