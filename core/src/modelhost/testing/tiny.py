"""Running small models step by step, without an engine.

:class:`GraphRunner` compiles a model's graph and builds the inputs of each step itself, so a test decides which tokens
of which sequences make up a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from modelhost.api import RequestError
from modelhost.api.backend import CacheLayout, KernelBackend
from modelhost.api.model import trace
from modelhost.graph.cache import CacheSpec, entry_slots
from modelhost.graph.passes import lower, optimize
from modelhost.weights.load import concatenate

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelhost.api.weight import Weight
    from modelhost.graph.graph import Graph
    from modelhost.graph.tensor import Parameter
    from modelhost.loading import ModelSource

    Float = npt.NDArray[np.float32]
    Int = npt.NDArray[np.int32]

__all__ = ["GraphRunner", "TinySequence"]


@dataclass(slots=True, eq=False)
class TinySequence:
    """A sequence that a :class:`GraphRunner` knows.

    Attributes:
        place: which of the runner's places it has, and so which blocks.
        prompt_length: tokens that count as its prompt.
        length: tokens processed so far.
    """

    place: int
    prompt_length: int
    length: int = 0


class GraphRunner:
    """Runs steps of a model on a backend.

    Args:
        source: the model and its weights, as :func:`modelhost.loading.open_model` gives it.
        backend: compiles the graph.
        optimized: run all graph passes; otherwise only lower the graph to the backend's ops.
        places: sequences that can be alive at a time.
        max_length: tokens of the longest sequence.
        block_size: tokens in a block of the cache. The blocks of a sequence are not neighbours.
    """

    def __init__(
        self,
        source: ModelSource,
        backend: KernelBackend,
        *,
        optimized: bool = True,
        places: int = 8,
        max_length: int = 128,
        block_size: int = 4,
    ) -> None:
        self.graph = _graph(source, backend, optimized)
        self._weights = source.weights()
        self._places, self._block_size = places, block_size
        self._table_size = -(-max_length // block_size)
        specs = [state.spec for state in self.graph.states.values()]
        self._strides = {spec.group: spec.stride if isinstance(spec, CacheSpec) else 1 for spec in specs}
        blocks = 1 + places * self._table_size
        layout = CacheLayout(block_size, dict.fromkeys(sorted(self._strides), blocks))
        self._executable = backend.compile(self.graph, self._load, layout)
        self._counter = itertools.count()
        self._owners: dict[int, TinySequence] = {}

    def start(self, prompt_length: int) -> TinySequence:
        """A new sequence. It takes the place of the oldest one when all places are taken."""
        sequence = TinySequence(next(self._counter) % self._places, prompt_length)
        self._owners[sequence.place] = sequence
        return sequence

    def step(self, *chunks: tuple[TinySequence, Sequence[int]]) -> list[Float]:
        """Process the next tokens of some sequences together.

        Args:
            chunks: sequences and their next tokens, at least one each.

        Returns:
            for each chunk the logits of its tokens, float32 ``[tokens, vocab_size]``.

        Raises:
            RequestError: a sequence has lost its place, gets no tokens or becomes too long.
        """
        for sequence, tokens in chunks:
            self._check(sequence, len(tokens))
        inputs = self._inputs(chunks)
        logits = self._executable.run({name: inputs[name] for name in ("generated", *self.graph.inputs)})["logits"]
        for sequence, tokens in chunks:
            sequence.length += len(tokens)
        ends = np.cumsum([len(tokens) for _, tokens in chunks])
        return np.split(logits, ends[:-1])

    def logits(self, prompt: Sequence[int], continuation: Sequence[int] = (), *, chunk: int | None = None) -> Float:
        """The logits of every token of a sequence of its own, float32 ``[tokens, vocab_size]``.

        Args:
            prompt: processed ``chunk`` tokens at a time, all at once by default.
            continuation: tokens that count as generated, processed one at a time.
        """
        sequence = self.start(len(prompt))
        size = chunk or len(prompt)
        pieces = [prompt[start : start + size] for start in range(0, len(prompt), size)]
        pieces += [[token] for token in continuation]
        return np.concatenate([self.step((sequence, piece))[0] for piece in pieces])

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """The ``count`` tokens that follow ``prompt`` when the likeliest is taken each time."""
        sequence = self.start(len(prompt))
        tokens: list[int] = []
        piece: Sequence[int] = prompt
        while len(tokens) < count:
            tokens.append(int(self.step((sequence, piece))[0][-1].argmax()))
            piece = tokens[-1:]
        return tokens

    def _check(self, sequence: TinySequence, count: int) -> None:
        if self._owners.get(sequence.place) is not sequence:
            raise RequestError(
                f"a later sequence has taken the place of this one; the runner has {self._places} places"
            )
        if not 1 <= count <= self._table_size * self._block_size - sequence.length:
            raise RequestError(
                f"{count} tokens do not fit a sequence of {sequence.length}; each step takes at least one, and the "
                f"runner has room for {self._table_size * self._block_size}"
            )

    def _load(self, parameter: Parameter) -> Weight:
        if parameter.parts:
            return concatenate([self._weights[part.name] for part in parameter.parts], parameter.name)
        return self._weights[parameter.name]

    def _inputs(self, chunks: Sequence[tuple[TinySequence, Sequence[int]]]) -> dict[str, Int]:
        counts = [len(tokens) for _, tokens in chunks]
        positions = [np.arange(s.length, s.length + len(tokens), dtype=np.int32) for s, tokens in chunks]
        lengths = [np.maximum(p + 1, s.prompt_length) for (s, _), p in zip(chunks, positions, strict=True)]
        generated = [p >= s.prompt_length for (s, _), p in zip(chunks, positions, strict=True)]
        inputs = {
            "token_ids": np.concatenate([np.asarray(tokens) for _, tokens in chunks]),
            "positions": np.concatenate(positions),
            "lengths": np.concatenate(lengths),
            "generated": np.concatenate(generated),
            "sequence_starts": np.cumsum([0, *counts]),
            "context_lengths": np.array([s.length + count for (s, _), count in zip(chunks, counts, strict=True)]),
            "logit_rows": np.arange(sum(counts)),
        }
        tables = np.stack([self._table(sequence) for sequence, _ in chunks])
        for group, stride in self._strides.items():
            slots = [entry_slots(t, p, self._block_size, stride) for t, p in zip(tables, positions, strict=True)]
            inputs |= {f"slot_mapping.{group}": np.concatenate(slots), f"block_table.{group}": tables}
            states = np.array([1 + sequence.place for sequence, _ in chunks])
            inputs |= {f"read_slots.{group}": states, f"write_slots.{group}": states}
        return {name: np.ascontiguousarray(value, np.int32) for name, value in inputs.items()}

    def _table(self, sequence: TinySequence) -> Int:
        return 1 + sequence.place + self._places * np.arange(self._table_size, dtype=np.int32)


def _graph(source: ModelSource, backend: KernelBackend, optimized: bool) -> Graph:
    graph = trace(source.model, backend.dtype)
    if optimized:
        return optimize(graph, native=backend.native, encoding_of=source.encoding_of, backend=backend.name)
    return lower(graph, native=backend.native, backend=backend.name)
