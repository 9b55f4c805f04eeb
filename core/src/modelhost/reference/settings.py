"""Settings of the reference backend."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ReferenceSettings(BaseModel):
    """What the reference backend can be asked for.

    Attributes:
        deterministic: compute prompt tokens and generated ones alike. It does so whatever is stated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    deterministic: bool = False
