"""What is measured: lengths of prompts and contexts, sizes of batches, and the random tokens to fill them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modelhost.api import ConfigError
from modelhost.engine.config import EngineConfig


@dataclass(frozen=True)
class Workload:
    """Sizes of the measurements.

    Attributes:
        prompt_lengths: tokens of the prompts whose processing is timed.
        contexts: tokens before the first timed token of a decode.
        batches: sequences that decode together.
        output_tokens: timed steps of each decode.
        repetitions: of every measurement, after one that is not counted.
        seed: of the random tokens.
    """

    prompt_lengths: tuple[int, ...] = (32, 128, 512)
    contexts: tuple[int, ...] = (64, 512)
    batches: tuple[int, ...] = (1, 8)
    output_tokens: int = 32
    repetitions: int = 5
    seed: int = 0

    @property
    def decodes(self) -> Iterator[tuple[int, int]]:
        """Every context with every batch."""
        return ((context, batch) for context in self.contexts for batch in self.batches)

    def prompts(self, count: int, length: int, vocab_size: int) -> list[list[int]]:
        """``count`` prompts of ``length`` random token ids each; the same ones for the same arguments."""
        generator = np.random.default_rng((self.seed, count, length))
        tokens: list[list[int]] = generator.integers(0, vocab_size, (count, length)).tolist()
        return tokens

    def engine_config(self, settings: Mapping[str, Any]) -> EngineConfig:
        """``settings`` with room for the workload: sequences, context, and no prompt taken from a cache.

        Raises:
            ConfigError: a setting is not valid, contradicts the workload, or names a speculator, for which random
                tokens are no measure.
        """
        if settings.get("speculative_config") is not None:
            raise ConfigError("speculation cannot be measured on random tokens; leave --speculative-config out")
        sequences = max(settings.get("max_num_seqs", 1), *self.batches)
        config = EngineConfig.parse(**{**settings, "max_num_seqs": sequences, "enable_prefix_caching": False})
        needed = self._context(config.max_num_batched_tokens, sequences)
        given = config.max_model_len
        if given is not None and given < needed:
            raise ConfigError(f"--max-model-len must be at least {needed} for these lengths, got {given}")
        return config.model_copy(update={"max_model_len": given or needed})

    def _context(self, step_tokens: int, sequences: int) -> int:
        """Tokens of the longest sequence.

        While the prompts of a batch are processed over several steps, the sequences that are done with theirs go on.
        """
        longest = max(self.contexts)
        meanwhile = -(-longest * max(self.batches) // max(1, step_tokens - sequences))
        return max(max(self.prompt_lengths) + 1, longest + meanwhile + self.output_tokens + 2)
