"""transformers as the reference of the architecture kit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(1)


def random_model(config: Any, seed: int = 0) -> Any:
    """A model with random parameters: matrices with deviation 0.9 / sqrt(fan in), vectors moved by 0.2 N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(0.9 / parameter.shape[-1] ** 0.5 * noise)
            else:
                parameter.add_(0.2 * noise)
    return model


def save_random(directory: Path, model_type: str, fields: dict[str, Any], seed: int = 0) -> Path:
    """Write a checkpoint of a random model."""
    config = AutoConfig.for_model(model_type, **fields)
    random_model(config, seed).save_pretrained(directory, safe_serialization=True)
    return directory


class TransformersReference:
    """Logits of a transformers model in float32 with eager attention, remembered by tokens."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], npt.NDArray[np.float32]] = {}

    def __call__(self, prompt: Sequence[int], continuation: Sequence[int]) -> npt.NDArray[np.float32]:
        key = tuple(prompt), tuple(continuation)
        if key not in self._known:
            self._known[key] = self._logits(prompt, continuation)
        return self._known[key]

    @torch.no_grad()
    def _logits(self, prompt: Sequence[int], continuation: Sequence[int]) -> npt.NDArray[np.float32]:
        self.model(torch.tensor([[0]]))  # a short forward resets frequencies that dynamic scaling has grown
        output = self.model(torch.tensor([list(prompt)]), use_cache=True)
        rows = [output.logits[0]]
        for token in continuation:
            output = self.model(torch.tensor([[token]]), cache=output.cache, use_cache=True)
            rows.append(output.logits[0])
        return torch.cat(rows).numpy()
