"""Settings of the PyTorch backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class TorchSettings(BaseModel):
    """What the backend can be asked for.

    Attributes:
        threads: that PyTorch computes an op with on the CPU, in the whole process; PyTorch's own choice when ``None``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: PositiveInt | None = None
