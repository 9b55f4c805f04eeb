"""The settings of an engine. Names and meanings are vLLM's where vLLM has them."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from modelhost.api import ConfigError

__all__ = ["EngineConfig", "SpeculativeConfig"]


class SpeculativeConfig(BaseModel):
    """Which speculator proposes tokens.

    Attributes:
        method: id of the speculator.
        num_speculative_tokens: most tokens that it proposes at a time.

    All other fields are the speculator's own settings.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    method: str
    num_speculative_tokens: PositiveInt = 5

    @property
    def settings(self) -> dict[str, Any]:
        """The speculator's own settings."""
        return dict(self.model_extra or {})


class EngineConfig(BaseModel):
    """How a model is run.

    Attributes:
        backend: id of the kernel backend; chosen by rank when ``None``.
        device: device of the backend, such as ``"cpu"`` or ``"cuda:0"``.
        dtype: of activations; the backend's default when ``None`` or ``"auto"``.
        threads: that the backend computes with; its own choice when ``None``.
        deterministic: the backend computes prompt tokens and generated ones alike, so that a token's values do not
            depend on which of the two it is; slower on a backend that has kernels for each.
        max_model_len: tokens of prompt and answer together; when ``None``, what the model was trained for or as much
            of it as fits in memory.
        block_size: tokens in a block of the KV cache.
        max_num_seqs: sequences in one step.
        max_num_batched_tokens: tokens in one step; longer prompts are processed in chunks.
        kv_cache_memory_bytes: size of the KV cache; from free memory when ``None``.
        memory_bytes: budget for weights, cache and workspace together; free memory when ``None``.
        enable_prefix_caching: start a prompt from the cached blocks of an earlier one with the same beginning.
        scheduling_policy: ``"fcfs"``, or ``"priority"``: lower values first.
        speculative_config: the speculator that proposes tokens ahead, and its settings; none by default.
        max_logprobs: most log-probabilities that a request may ask for at each token.
        seed: of requests that state none.
        tool_call_parser: finds calls of tools in answers: a parser's name, ``"auto"`` for the one that fits the model,
            or ``"none"``.
        reasoning_parser: separates reasoning from answers; likewise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: str | None = None
    device: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None
    threads: PositiveInt | None = None
    deterministic: bool = False
    max_model_len: PositiveInt | None = None
    block_size: PositiveInt = 16
    max_num_seqs: PositiveInt = 64
    max_num_batched_tokens: PositiveInt = 2048
    kv_cache_memory_bytes: PositiveInt | None = None
    memory_bytes: PositiveInt | None = None
    enable_prefix_caching: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    speculative_config: SpeculativeConfig | None = None
    max_logprobs: int = Field(default=20, ge=0)
    seed: int = Field(default=0, ge=0)
    tool_call_parser: str = Field(default="auto", min_length=1)
    reasoning_parser: str = Field(default="auto", min_length=1)

    @property
    def backend_settings(self) -> dict[str, Any]:
        """The backend's own settings that were given."""
        threads = {} if self.threads is None else {"threads": self.threads}
        return threads | ({"deterministic": True} if self.deterministic else {})

    @property
    def num_speculative_tokens(self) -> int:
        """Most tokens that are proposed at a time; 0 without a speculator."""
        return self.speculative_config.num_speculative_tokens if self.speculative_config else 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} must be at least "
                f"max_num_seqs {self.max_num_seqs}"
            )
        return self

    @classmethod
    def parse(cls, **settings: Any) -> EngineConfig:
        """Validate ``settings``.

        Raises:
            ConfigError: names every setting that is unknown or has a value that is not allowed.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            lines = [
                f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}, got {e['input']!r}" for e in error.errors()
            ]
            raise ConfigError("engine settings are not valid: " + "; ".join(lines)) from None
