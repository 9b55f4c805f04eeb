"""Small checkpoints with random weights, and the registry that reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modelhost.api import API, Architecture
from modelhost.api.model import CausalLM
from modelhost.plugins import Registration, Registry, boot

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelhost.api.weight import Weight

__all__ = ["random_tensor", "registry_for", "write_random_checkpoint"]


def random_tensor(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Values that let every part of a model show in its logits.

    Matrices are normal with deviation ``0.9 / sqrt(last dimension)``; vectors have deviation 0.2 around 0 for biases
    and around 1 for all others.
    """
    values = rng.standard_normal(shape)
    if len(shape) > 1:
        values *= 0.9 / np.sqrt(shape[-1])
    else:
        values = 0.2 * values + (0.0 if name.endswith("bias") else 1.0)
    return values.astype(np.float32)


def write_random_checkpoint(
    directory: Path, architecture: str, model: type[CausalLM], config: Mapping[str, Any], *, seed: int = 0
) -> Path:
    """Write config.json and model.safetensors with random float32 weights for every parameter of ``model``.

    Args:
        directory: is made.
        architecture: goes into ``architectures``.
        model: names the parameters.
        config: all other fields of config.json.

    Returns:
        ``directory``.

    Raises:
        ConfigError: ``config`` does not describe such a model.
    """
    from safetensors.numpy import save_file

    fields = {**config, "architectures": [architecture]}
    parsed = model.config_class.from_huggingface(_ConfigOnly(fields), str(directory / "config.json"))
    rng = np.random.default_rng(seed)
    parameters = model(parsed).named_parameters()  # type: ignore[call-arg]
    tensors = {name: random_tensor(name, parameter.sizes, rng) for name, parameter in parameters}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(fields, indent=1))
    save_file(tensors, directory / "model.safetensors")
    return directory


def registry_for(model: type[CausalLM], architecture: str) -> Registry:
    """modelhost's own records, and ``model`` as the one that reads ``architecture``. It need not be installed.

    Args:
        model: a class at the top level of an importable module.
        architecture: as a config.json or the metadata of a GGUF file state it.
    """
    record = Architecture(architecture, target=f"{model.__module__}:{model.__qualname__}", gguf=architecture)
    own = boot(no_plugins=True)
    core = [claim for kind in ("backend", "encoding") for claim in own.of(kind).values()]
    return Registry(registrations=[*core, Registration(record, "under-test", "0", "test", model.__module__, "", API)])


class _ConfigOnly:
    """A checkpoint of which only config.json exists."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.architecture: str = config["architectures"][0]
        self.config = config

    def __contains__(self, name: str) -> bool:
        return False

    def shape_of(self, name: str) -> tuple[int, ...]:
        raise KeyError(name)

    def weight(self, name: str) -> Weight:
        raise KeyError(name)
