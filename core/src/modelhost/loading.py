"""From a path to a compiled model: checkpoint, architecture, graph, memory plan, executable.

Each stage is cheap until the last, so ``plan`` and ``explain`` stop early, and nothing is allocated before it is known
to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from modelhost.api import Architecture, ConfigError, Encoding, PluginError, Speculator
from modelhost.api.backend import Executable, KernelBackend
from modelhost.api.model import CausalLM, trace
from modelhost.api.speculator import SpeculationContext, SpeculatorMethod
from modelhost.api.weight import Weight
from modelhost.engine.config import EngineConfig
from modelhost.engine.memory import MemoryPlan, plan_memory
from modelhost.graph.graph import Graph
from modelhost.graph.passes import optimize
from modelhost.graph.tensor import DType, Parameter
from modelhost.plugins import (
    BackendSelection,
    Plan,
    Registry,
    Selection,
    load_target,
    plugin_settings,
    select,
    select_architecture,
    select_backend,
    takes_setting,
)
from modelhost.weights.checkpoint import Checkpoint
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.experts import expert_source
from modelhost.weights.load import Source, concatenate, encoded_size, fetch, verify
from modelhost.weights.open import open_checkpoint

__all__ = ["ModelSource", "PreparedModel", "create_speculator", "open_model", "prepare_model"]


@dataclass(frozen=True)
class ModelSource:
    """A checkpoint and the architecture that reads it, with nothing of the weights touched.

    Attributes:
        checkpoint: opened, memory-mapped.
        selection: why this architecture.
        model: built from the checkpoint's configuration; its parameters have names and shapes, no values.
        config: the validated configuration.
    """

    checkpoint: Checkpoint
    selection: Selection[Architecture]
    model: CausalLM
    config: Any

    @cached_property
    def sources(self) -> dict[str, Source]:
        """Which tensors of the checkpoint each parameter comes from."""
        return {name: self._source(name, parameter.sizes) for name, parameter in self.model.named_parameters()}

    def _source(self, name: str, shape: tuple[int, ...]) -> Source:
        gguf = self.checkpoint.format == "gguf"
        names = (self.model.gguf_name(name),) if gguf else self.model.huggingface_names(name)
        if len(shape) == 3:
            return expert_source(names, shape, self.checkpoint)
        pieces = self.model.gguf_pieces(name) if gguf and names[0] not in self.checkpoint else None
        if pieces is not None:
            return Source(names[0], shape=shape, stack=pieces.tensors, join=pieces.join)
        transform = self.model.gguf_transform(name) if gguf else self.model.huggingface_transform(name)
        return Source(names[0], transform, shape, names[1:])

    @property
    def ignored(self) -> tuple[str, ...]:
        """Patterns of tensors that are no parameters."""
        tied = ("lm_head.weight", "output.weight") if "lm_head.weight" not in self.sources else ()
        return (*self.model.ignored_tensors, *tied)

    def encoding_of(self, parameter: Parameter) -> str:
        """The encoding of a parameter in the checkpoint; of merged ones, that of their parts."""
        if self.sources[_parts(parameter)[0].name].join is not None:
            return "f32"
        return self.checkpoint.encoding_of(self._tensors(parameter)[0])

    def encoded_bytes(self, parameter: Parameter) -> int:
        """Bytes of a parameter in the checkpoint."""
        return sum(encoded_size(self.checkpoint, self.sources[part.name]) for part in _parts(parameter))

    def _tensors(self, parameter: Parameter) -> tuple[str, ...]:
        source = self.sources[_parts(parameter)[0].name]
        return source.found(self.checkpoint) or source.names

    def verify(self) -> None:
        """Check that tensors and parameters match.

        Raises:
            WeightError: lists every missing, unexpected and wrongly shaped tensor.
        """
        verify(self.checkpoint, self.sources, self.ignored)

    def weights(self) -> dict[str, Weight]:
        """All parameters by name, still encoded; errors as :meth:`verify`."""
        self.verify()
        return {name: fetch(self.checkpoint, source) for name, source in self.sources.items()}

    def load(self, parameter: Parameter) -> Weight:
        """A parameter, still encoded; merged ones are joined."""
        parts = [fetch(self.checkpoint, self.sources[part.name]) for part in _parts(parameter)]
        return parts[0] if len(parts) == 1 else concatenate(parts, parameter.name)


def _parts(parameter: Parameter) -> tuple[Parameter, ...]:
    return parameter.parts or (parameter,)


def open_model(path: Path, registry: Registry) -> ModelSource:
    """Open a checkpoint and build its model.

    Raises:
        CheckpointError: files are missing or corrupt.
        PluginError: no installed package provides the architecture; the text names the package to install.
        ConfigError: the configuration lacks a field or has a value that is not allowed.
    """
    encodings = EncodingTable(one.record for one in registry.of(Encoding).values())
    checkpoint = open_checkpoint(path, encodings)
    selection = select_architecture(registry, checkpoint.architecture, "gguf" if checkpoint.format == "gguf" else "hf")
    target: Any = load_target(selection.chosen)
    if not (isinstance(target, type) and issubclass(target, CausalLM)):
        raise PluginError(f"{selection.chosen.owner}: {selection.chosen.record.target} must be a subclass of CausalLM")
    where = str(checkpoint.path if checkpoint.format == "gguf" else checkpoint.path / "config.json")
    read = target.config_class.from_gguf if checkpoint.format == "gguf" else target.config_class.from_huggingface
    config = read(checkpoint, where)
    model: CausalLM = target(config)  # type: ignore[call-arg]
    model.assign_names()
    return ModelSource(checkpoint, selection, model, config)


@dataclass(frozen=True)
class PreparedModel:
    """A model whose memory is planned and whose backend is chosen, ready to be compiled.

    Attributes:
        source: checkpoint and architecture.
        backend: an instance of the chosen backend.
        backend_selection: why this backend.
        graph: optimised for the backend.
        memory: what it takes.
        plan: the choices as plain data.
    """

    source: ModelSource
    backend: KernelBackend
    backend_selection: BackendSelection
    graph: Graph
    memory: MemoryPlan
    plan: Plan

    def compile(self) -> Executable:
        """Load the weights and allocate the caches."""
        return self.backend.compile(self.graph, self.source.load, self.memory.layout)


def prepare_model(source: ModelSource, registry: Registry, config: EngineConfig) -> PreparedModel:
    """Choose a backend, optimise the graph for it and plan the memory.

    Raises:
        PluginError: the backend is unknown, ambiguous or broken.
        UnsupportedError: the backend cannot run here, or lacks an op.
        ConfigError: the backend takes no such setting, or a value is not allowed.
        MemoryBudgetError: the model does not fit.
        WeightError: the tensors do not match the model.
    """
    dtype = None if config.dtype == "auto" else config.dtype
    selection = select_backend(registry, config.backend, config.device, dtype)
    backend = create_backend(selection, registry, config)
    source.verify()
    graph = optimize(
        trace(source.model, backend.dtype),
        native=backend.native,
        encoding_of=source.encoding_of,
        backend=backend.name,
    )
    encoded = {
        name: (source.encoding_of(parameter), source.encoded_bytes(parameter))
        for name, parameter in graph.parameters.items()
    }
    memory = plan_memory(graph, backend, encoded, config, source.config.max_position_embeddings)
    plan = Plan.make(str(source.checkpoint.path), source.selection, selection, registry)
    return PreparedModel(source, backend, selection, graph, memory, plan)


def create_backend(selection: BackendSelection, registry: Registry, config: EngineConfig) -> KernelBackend:
    """Import and construct the chosen backend.

    Raises:
        PluginError: it is broken.
        ConfigError: it takes no setting that ``config`` or the user's file states, or a value is not allowed.
        UnsupportedError: it cannot use the device or the dtype.
    """
    chosen, stated = selection.chosen, config.backend_settings
    refused = [f"--{name}" for name in stated if not takes_setting(chosen, name)]
    if refused:
        raise ConfigError(
            f"backend {chosen.id!r} takes no {' and no '.join(refused)}; leave that out or choose another backend"
        )
    factory = load_target(chosen)
    settings = plugin_settings(registry, chosen, stated, "engine") if stated else plugin_settings(registry, chosen)
    dtype: DType = selection.dtype  # type: ignore[assignment]
    backend: KernelBackend = factory(device=selection.device, dtype=dtype, settings=settings)
    return backend


def create_speculator(prepared: PreparedModel, registry: Registry, config: EngineConfig) -> SpeculatorMethod | None:
    """Import and construct the speculator that ``config`` names, if it names one.

    Raises:
        PluginError: it is unknown or broken.
        ConfigError: it takes no such setting, or a value is not allowed.
    """
    stated = config.speculative_config
    if stated is None:
        return None
    selection = select(registry, Speculator, stated.method)
    settings = plugin_settings(registry, selection.chosen, stated.settings, "speculative_config")
    factory = load_target(selection.chosen)
    context = SpeculationContext(
        prepared.source.config.vocab_size, prepared.memory.max_model_len, stated.num_speculative_tokens
    )
    speculator: SpeculatorMethod = factory(context, settings)
    return speculator
