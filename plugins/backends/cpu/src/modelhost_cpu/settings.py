"""The settings of this backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class CpuSettings(BaseModel):
    """How the backend uses the machine.

    Attributes:
        threads: that compute; the physical cores that the process may use when ``None``.
        deterministic: compute prompt and generated tokens by the same kernels.
        object_cache: keep compiled kernels on disk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: PositiveInt | None = None
    deterministic: bool = False
    object_cache: bool = True
