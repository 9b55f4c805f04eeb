"""The order in which the states of recurrent layers advance, worked out once for all layers of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

Int = npt.NDArray[np.int32]
Index = slice | torch.Tensor


@dataclass(frozen=True, slots=True)
class Taps:
    """Rows of ``[states before the step | inputs of the step]`` that a causal convolution reads.

    Attributes:
        rows: for every tap, oldest first, a row for each token.
        last: rows that become the states, sequence after sequence.
    """

    rows: tuple[Index, ...]
    last: Index


@dataclass(slots=True)
class Walk:
    """The tokens of a step, one of every sequence at a time: the first of all, the second of all that have two, ...

    Sequences are ordered by their number of tokens, the longest first, so those that take part are always the first
    ones.

    Attributes:
        read: slots of the states before the step.
        write: slots of the states after it.
        fresh: which sequences start from zeros; ``None`` when none does.
        order: rows in the order of the walk; ``None`` when that is their own.
        counts: sequences that take part at each time.
    """

    read: torch.Tensor
    write: torch.Tensor
    fresh: torch.Tensor | None
    order: torch.Tensor | None
    counts: list[int]
    _starts: npt.NDArray[np.int64] = field(repr=False)
    _lengths: npt.NDArray[np.int64] = field(repr=False)
    _taps: dict[int, Taps] = field(default_factory=dict, repr=False)

    def states(self, stored: torch.Tensor) -> torch.Tensor:
        """A copy of the states before the step, in the order of the walk."""
        states = stored.index_select(0, self.read)
        return states if self.fresh is None else states.index_fill_(0, self.fresh, 0.0)

    def times(self) -> Iterator[slice]:
        """The rows in the order of the walk of each time."""
        start = 0
        for count in self.counts:
            yield slice(start, start + count)
            start += count

    def ordered(self, rows: torch.Tensor) -> torch.Tensor:
        """``rows`` in the order of the walk."""
        return rows if self.order is None else rows.index_select(0, self.order)

    def restored(self, rows: torch.Tensor) -> torch.Tensor:
        """What is in the order of the walk in the order of the step."""
        return rows if self.order is None else torch.empty_like(rows).index_copy_(0, self.order, rows)

    def taps(self, width: int) -> Taps:
        """For a convolution over ``width`` tokens."""
        if width not in self._taps:
            self._taps[width] = self._make_taps(width)
        return self._taps[width]

    def _make_taps(self, width: int) -> Taps:
        kept = width - 1
        sequence = np.repeat(np.arange(len(self._lengths)), self._lengths)
        rows = _ranges(self._starts, self._lengths)
        inverse = np.argsort(rows, kind="stable")
        sequence, rows = sequence[inverse], rows[inverse]

        def places(sequence: npt.NDArray[np.int64], position: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            before = sequence * kept + kept + position
            return np.where(position < 0, before, kept * len(self._lengths) + self._starts[sequence] + position)

        position = rows - self._starts[sequence]
        taps = tuple(self._index(places(sequence, position + tap - kept)) for tap in range(width))
        owners = np.repeat(np.arange(len(self._lengths)), kept)
        ends = np.tile(np.arange(kept), len(self._lengths)) - kept + self._lengths[owners]
        return Taps(taps, self._index(places(owners, ends)))

    def _index(self, values: npt.NDArray[np.int64]) -> Index:
        return _consecutive(values) or torch.from_numpy(values).to(self.read.device)


def _ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``starts[i] .. starts[i] + lengths[i] - 1`` for all i, one after another."""
    ends = np.cumsum(lengths)
    ranges: npt.NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)
    return ranges


def _consecutive(values: npt.NDArray[np.int64]) -> slice | None:
    """A slice of ``values`` when each is one more than the one before."""
    if len(values) and (np.diff(values) == 1).all():
        return slice(int(values[0]), int(values[-1]) + 1)
    return None


def plan_walk(read: Int, write: Int, starts: Int, contexts: Int, device: torch.device) -> Walk:
    """Order the tokens of a step.

    Args:
        read: ``[B]``, slots of the states before the step.
        write: ``[B]``, slots of the states after it.
        starts: ``[B+1]``, the first row of each sequence, and the number of rows.
        contexts: ``[B]``, tokens of each sequence up to and with this step's.
        device: where the indices shall be.
    """

    def upload(values: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(device)

    lengths = np.diff(starts).astype(np.int64)
    by_length = np.argsort(-lengths, kind="stable")
    first, lengths, contexts = starts[:-1].astype(np.int64)[by_length], lengths[by_length], contexts[by_length]
    counts = [int(np.searchsorted(-lengths, -time)) for time in range(int(lengths.max(initial=0)))]
    order = np.concatenate([np.zeros(0, np.int64), *(first[:count] + time for time, count in enumerate(counts))])
    fresh = np.flatnonzero(contexts == lengths)
    in_order = _consecutive(order) is not None or not len(order)
    return Walk(
        upload(read[by_length]),
        upload(write[by_length]),
        upload(fresh) if len(fresh) else None,
        None if in_order else upload(order),
        counts,
        first,
        lengths,
    )
