"""Settings of the n-gram speculator, under vLLM's names."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, PositiveInt, model_validator


class NGramSettings(BaseModel):
    """Lengths of the n-grams that are looked for.

    Attributes:
        prompt_lookup_max: longest.
        prompt_lookup_min: shortest.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_lookup_max: PositiveInt = 5
    prompt_lookup_min: PositiveInt = 2

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError(
                f"prompt_lookup_min {self.prompt_lookup_min} is above prompt_lookup_max {self.prompt_lookup_max}"
            )
        return self
