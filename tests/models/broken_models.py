"""A Llama and a backend with one mistake each, for the tests of the architecture kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelhost_llama.llama import Llama

from modelhost.api.blocks import Linear
from modelhost.api.model import DecoderConfig
from modelhost.graph.graph import Graph
from modelhost.reference import ReferenceBackend


class WrongBase(Llama):
    """Rotates with another base than the configuration's. A single token does not show it."""

    def __init__(self, config: DecoderConfig) -> None:
        rope = config.rope_parameters.model_copy(update={"rope_theta": 9000.0})
        super().__init__(config.model_copy(update={"rope_parameters": rope}))


class ExtraParameter(Llama):
    """Has a parameter that nothing uses."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.extra = Linear(config.hidden_size, 3)


class BrokenBackend(ReferenceBackend):
    """The reference backend, but for what ``change(graph, inputs, run)`` does to a step."""

    def __init__(self, change: Callable[[Graph, dict[str, Any], Callable[..., Any]], Any]) -> None:
        super().__init__()
        self._change = change

    def compile(self, graph: Graph, load: Any, cache: Any) -> Any:
        executable = super().compile(graph, load, cache)
        run = executable.run

        def changed(inputs: Mapping[str, Any]) -> Any:
            return self._change(graph, dict(inputs), run)

        executable.run = changed  # type: ignore[method-assign]
        return executable
