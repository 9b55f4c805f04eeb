"""How long it takes until a model answers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from modelhost.engine.config import EngineConfig
from modelhost.engine.model import ServedModel
from modelhost.plugins import Registry

from .measure import first_token_seconds
from .workload import Workload


@dataclass(frozen=True, slots=True)
class LoadTime:
    """Seconds of the stages up to the first token.

    Attributes:
        prepare: opening the checkpoint, tracing the model and planning its memory.
        weights: loading the weights and compiling the graph.
        first_token: of a prompt as short as the shortest that is measured.
    """

    prepare: float
    weights: float
    first_token: float

    @property
    def total(self) -> float:
        """Seconds from opening the checkpoint to the first token."""
        return self.prepare + self.weights + self.first_token


def load_model(
    model: str, config: EngineConfig, workload: Workload, registry: Registry | None = None
) -> tuple[ServedModel, LoadTime]:
    """Load ``model`` and let it produce one token.

    Raises:
        ModelHostError: as :class:`~modelhost.engine.model.ServedModel`.
    """
    started = time.perf_counter()
    served = ServedModel(model, config, registry=registry)
    prepared = time.perf_counter()
    engine = served.engine
    loaded = time.perf_counter()
    [prompt] = workload.prompts(1, min(workload.prompt_lengths), engine.vocab_size)
    return served, LoadTime(prepared - started, loaded - prepared, first_token_seconds(engine, prompt))
