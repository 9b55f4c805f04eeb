"""Inputs of steps for graphs under test: chunks of sequences over a shuffled paged cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from modelhost.api.backend import CacheLayout, CacheSpec, Graph, State
from modelhost.graph.cache import entry_slots

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens ``start .. end-1`` of one sequence."""

    sequence: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PagedSteps:
    """Makes the inputs of steps. Sequences have their blocks scattered over the cache.

    The state of a recurrent layer moves to another slot whenever a sequence passes the end of a block, so the slot that
    it leaves is a snapshot: the same chunk can be run from it again. A sequence that starts is told to read the slot of
    another one.

    Attributes:
        sequences: number of sequences that have blocks.
        context: most tokens of a sequence.
        block_size: tokens in a block.
        vocabulary: token ids are below it; a token's id depends on its sequence and position only.
        prompt: length of every prompt, for the inputs ``lengths`` and ``generated``.
        seed: of the token ids and of the order of the blocks.
    """

    sequences: int = 4
    context: int = 64
    block_size: int = 4
    vocabulary: int = 64
    prompt: int = 8
    seed: int = 0
    _tokens: Int = field(init=False, repr=False)
    _table: Int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        import numpy as np

        rng = np.random.default_rng(self.seed)
        tokens = rng.integers(0, self.vocabulary, (self.sequences, self.context)).astype(np.int32)
        blocks = 1 + rng.permutation(self.sequences * self._blocks_per_sequence).astype(np.int32)
        object.__setattr__(self, "_tokens", tokens)
        object.__setattr__(self, "_table", blocks.reshape(self.sequences, -1))

    @property
    def _blocks_per_sequence(self) -> int:
        return -(-self.context // self.block_size)

    def layout(self, graph: Graph) -> CacheLayout:
        """A cache that holds all sequences in every group of ``graph``; of recurrent states one for each block."""
        blocks = 1 + self.sequences * self._blocks_per_sequence
        return CacheLayout(self.block_size, {state.spec.group: blocks for state in graph.states.values()})

    def sizes(self, graph: Graph, tokens: int) -> dict[str, int]:
        """Sizes of the symbols for a step of ``tokens`` tokens in which all sequences take part."""
        groups = {f"blocks.{state.spec.group}": self._blocks_per_sequence for state in graph.states.values()}
        return {"T": tokens, "S": tokens, "B": self.sequences, "block_size": self.block_size, **groups}

    def inputs(self, graph: Graph, chunks: Sequence[Chunk], logit_rows: Iterable[int] | None = None) -> dict[str, Int]:
        """The inputs that ``graph`` asks for and ``generated``, for a step of ``chunks``.

        Args:
            logit_rows: rows whose logits are wanted; all by default.
        """
        import numpy as np

        positions = _joined([np.arange(chunk.start, chunk.end, dtype=np.int32) for chunk in chunks])
        starts = np.cumsum([0, *(chunk.end - chunk.start for chunk in chunks)])
        rows = range(len(positions)) if logit_rows is None else logit_rows
        named = {
            "token_ids": _joined([self._ids(chunk) for chunk in chunks]),
            "positions": positions,
            "lengths": np.maximum(positions + 1, self.prompt),
            "generated": positions >= self.prompt,
            "sequence_starts": starts,
            "context_lengths": np.array([chunk.end for chunk in chunks], np.int32),
            "logit_rows": np.fromiter(rows, np.int32),
        }
        table = self._table[np.array([chunk.sequence for chunk in chunks], np.intp)]
        strides = {state.spec.group: _stride(state) for state in graph.states.values()}
        for name in graph.inputs:
            kind, _, group = name.partition(".")
            if kind == "read_slots":
                named[name] = np.array(
                    [self._state(c.sequence, c.start) if c.start else self._table[0, 0] for c in chunks]
                )
            elif kind == "write_slots":
                named[name] = np.array([self._state(chunk.sequence, chunk.end) for chunk in chunks])
            elif group:
                slots = [self._slots(chunk, strides[group]) for chunk in chunks]
                named[name] = table if kind == "block_table" else _joined(slots)
        return {name: named[name].astype(np.int32) for name in ("generated", *graph.inputs)}

    def _state(self, sequence: int, computed: int) -> int:
        """The slot of the state after the first ``computed`` tokens."""
        return int(self._table[sequence, computed // self.block_size % self._blocks_per_sequence])

    def _ids(self, chunk: Chunk) -> Int:
        import numpy as np

        ids: Int = self._tokens[chunk.sequence, np.arange(chunk.start, chunk.end, dtype=np.int32) % self.context]
        return ids

    def _slots(self, chunk: Chunk, stride: int) -> Int:
        """Meaningful for positions within the context only, which is all that graphs with a cache are given."""
        import numpy as np

        places = np.arange(chunk.start, chunk.end, dtype=np.int32) % self.context
        return entry_slots(self._table[chunk.sequence], places, self.block_size, stride)


def _stride(state: State) -> int:
    return state.spec.stride if isinstance(state.spec, CacheSpec) else 1


def _joined(pieces: list[Int]) -> Int:
    import numpy as np

    return np.concatenate([np.zeros(0, np.int32), *pieces]).astype(np.int32)
