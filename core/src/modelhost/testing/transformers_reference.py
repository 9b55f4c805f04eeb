"""Hugging Face transformers as the reference of the architecture kit. torch and transformers are imported when used.

A family's tests need one line for each shape of checkpoint that they cover::

    from modelhost.testing.transformers_reference import transformers_checks

    @pytest.mark.parametrize("check", transformers_checks("MyForCausalLM", "my_model", {"hidden_size": 40, ...}))
    def test_conformance(check):
        check()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .architecture import ArchitectureCase

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Float = npt.NDArray[np.float32]

__all__ = ["TransformersReference", "random_model", "save_random", "transformers_checks"]


def transformers_checks(architecture: str, model_type: str, fields: Mapping[str, Any], **options: Any) -> list[Any]:
    """The checks of :class:`ArchitectureCase` on a random checkpoint that transformers wrote, against transformers.

    Args:
        architecture: id of the architecture that must read the checkpoint; begins the id of every check.
        model_type: of the configuration in transformers.
        fields: of the configuration; keep the sizes small and odd.
        options: further arguments of :class:`ArchitectureCase`.
    """
    directory = TemporaryDirectory(prefix="modelhost-")

    def checkpoint() -> Path:
        return save_random(Path(directory.name), model_type, fields)

    case = ArchitectureCase(
        architecture, checkpoint=checkpoint, reference=TransformersReference, **{"generated": 24, **options}
    )
    return case.checks(architecture)


def save_random(directory: Path, model_type: str, fields: Mapping[str, Any], seed: int = 0) -> Path:
    """Write the checkpoint of a random model; returns ``directory``."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(model_type, **fields)
    random_model(config, seed).save_pretrained(directory, safe_serialization=True)
    return directory


def random_model(config: Any, seed: int = 0) -> Any:
    """A transformers model with random parameters.

    Matrices have deviation 0.9 / sqrt(fan in), vectors are moved by 0.2 N(0, 1). Decays of linear attention are made
    slow, so that states remember. A token whose experts are looked up has any of them.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    model = _auto_class(config).from_config(config, **_eager()).eval()
    biases = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *biases]:
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("A_log"):
                parameter.copy_(noise - 2)
            elif parameter.dim() > 1:
                parameter.copy_(0.9 / parameter.shape[-1] ** 0.5 * noise)
            else:
                parameter.add_(0.2 * noise)
        for name, table in model.named_buffers():
            if name.endswith("tid2eid"):
                ranks = torch.rand(len(table), config.n_routed_experts, generator=generator)
                table.copy_(ranks.argsort(-1)[:, : table.shape[1]])
    return model


class TransformersReference:
    """Logits of a transformers model in float32 with eager attention, on one thread, remembered by tokens.

    Args:
        checkpoint: a directory that transformers can load.
    """

    def __init__(self, checkpoint: Path) -> None:
        from transformers import AutoConfig

        model_class = _auto_class(AutoConfig.from_pretrained(checkpoint))
        self.model = model_class.from_pretrained(checkpoint, **_eager()).eval()
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], Float] = {}

    def __call__(self, prompt: Sequence[int], continuation: Sequence[int]) -> Float:
        """The logits of every token, float32 ``[len(prompt) + len(continuation), vocab_size]``."""
        key = tuple(prompt), tuple(continuation)
        if key not in self._known:
            self._known[key] = self._logits(prompt, continuation)
        return self._known[key]

    def _logits(self, prompt: Sequence[int], continuation: Sequence[int]) -> Float:
        import torch

        with torch.no_grad():
            self.model(torch.tensor([[0]]))  # a short forward resets frequencies that dynamic scaling has grown
            output = self.model(torch.tensor([list(prompt)]), use_cache=True)
            rows = [output.logits[0]]
            for token in continuation:
                output = self.model(torch.tensor([[token]]), cache=output.cache, use_cache=True)
                rows.append(output.logits[0])
            logits: Float = torch.cat(rows).numpy()
        return logits


def _auto_class(config: Any) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM


def _eager() -> dict[str, Any]:
    """What makes results repeatable: float32, plain attention and experts, one thread."""
    import torch

    torch.set_num_threads(1)
    return {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}
