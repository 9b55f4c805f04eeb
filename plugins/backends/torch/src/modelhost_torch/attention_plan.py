"""How the queries of a step are cut into parts, worked out once for all layers that share a block table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

Int = npt.NDArray[np.int32]
Index = slice | torch.Tensor

MASK_ELEMENTS = 1 << 22
"""Most elements of one part's mask or, where scores are computed explicitly, of its scores."""
GATHER_BYTES = 64 << 20
"""Most bytes of keys and values gathered for one part, unless one sequence alone needs more."""
_SHORT = 64


@dataclass(frozen=True, slots=True)
class Geometry:
    """What layers must have in common to share parts.

    Attributes:
        block_size: entries in a block.
        window: entries that a query sees; ``None`` means all.
        group: query heads of one key/value head.
        score_rows: rows of the scores or of the mask for one query.
        token_bytes: bytes of one token's keys and values.
        causal_kernel: a fused kernel computes plain causal attention without holding the scores.
        stride: tokens that make an entry, which is seen from the last of them on. Otherwise an entry is a token.
    """

    block_size: int
    window: int | None
    group: int
    score_rows: int
    token_bytes: int
    causal_kernel: bool
    stride: int = 1

    def visible(self, position: int) -> tuple[int, int]:
        """The first entry that a query at ``position`` sees, and the one after the last."""
        end = (position + 1) // self.stride
        return 0 if self.window is None else max(0, end - self.window), end


@dataclass(slots=True)
class Part:
    """Queries that attend in one call: one query of each of many sequences, or many queries of one.

    Attributes:
        rows: of the queries.
        all_rows: they are all queries of the step, in order.
        sequences: number of sequences.
        slots: of the keys, sequence after sequence, each padded to the same number.
        first_keys: number of the first entry of each sequence; one number where all have the same.
        causal: a whole sequence attends to itself, with nothing hidden but the future.
    """

    rows: Index
    all_rows: bool
    sequences: int
    slots: Index
    first_keys: int | torch.Tensor = 0
    causal: bool = False
    _mask: torch.Tensor | _Band | None = field(default=None)

    def mask(self) -> torch.Tensor | None:
        """Bool ``[sequences, 1, queries * group, keys]``, true where a query sees a key; ``None`` where all see all."""
        return self._mask.build() if isinstance(self._mask, _Band) else self._mask

    def selection(self, selected: torch.Tensor, keys: int, group: int) -> torch.Tensor:
        """The mask of keys whose positions are among those of their query, in the form of :meth:`mask`.

        Args:
            selected: ``[rows, positions]``, -1 for none.
            keys: number of keys of each sequence.
        """
        first = self.first_keys if isinstance(self.first_keys, int) else self.first_keys[:, None]
        places = selected - first
        places = torch.where((places >= 0) & (places < keys) & (selected >= 0), places, keys)
        chosen = torch.zeros(len(selected), keys + 1, dtype=torch.bool, device=selected.device)
        chosen = chosen.scatter_(1, places, True)[:, :keys].view(self.sequences, -1, keys)
        return chosen.repeat_interleave(group, 1)[:, None] if group > 1 else chosen[:, None]


@dataclass(frozen=True, slots=True)
class _Band:
    """The mask of queries at ``first .. last`` over the entries ``low .. high-1``."""

    first: int
    last: int
    low: int
    high: int
    geometry: Geometry
    device: torch.device

    def build(self) -> torch.Tensor:
        positions = torch.arange(self.first, self.last + 1, device=self.device)
        ends = ((positions + 1) // self.geometry.stride).repeat_interleave(self.geometry.group)[:, None]
        keys = torch.arange(self.low, self.high, device=self.device)
        mask = keys < ends
        if self.geometry.window is not None:
            mask &= keys >= ends - self.geometry.window
        return mask[None, None]


def plan_attention(table: Int, starts: Int, contexts: Int, geometry: Geometry, device: torch.device) -> list[Part]:
    """Cut the queries of a step into parts.

    Args:
        table: block table ``[B, blocks]``.
        starts: ``[B+1]``, the first query row of each sequence, and the number of rows.
        contexts: ``[B]``, tokens of each sequence up to and with this step's.
        device: where the indices and masks shall be.
    """
    return list(_Planner(table, starts, contexts, geometry, device).parts())


class _Planner:
    def __init__(self, table: Int, starts: Int, contexts: Int, geometry: Geometry, device: torch.device) -> None:
        self.table, self.starts, self.contexts = table, starts, contexts
        self.geometry, self.device = geometry, device
        self.entries = contexts // geometry.stride
        self.kept_mask = 0

    def parts(self) -> Iterator[Part]:
        counts = np.diff(self.starts)
        yield from self._decoding(np.flatnonzero(counts == 1))
        for sequence in np.flatnonzero(counts > 1).tolist():
            yield from self._run(sequence)

    def _decoding(self, sequences: npt.NDArray[np.intp]) -> Iterator[Part]:
        window = self.geometry.window
        visible = self.entries if window is None else np.minimum(self.entries, window)
        order = sequences[np.argsort(visible[sequences], kind="stable")].tolist()
        begin = 0
        for end in range(1, len(order) + 1):
            if end == len(order) or self._splits(int(visible[order[begin]]), int(visible[order[end]]), end - begin + 1):
                yield self._batch(sorted(order[begin:end]), visible)
                begin = end

    def _splits(self, shortest: int, longest: int, count: int) -> bool:
        uneven = longest > 2 * max(shortest, _SHORT)
        return uneven or count * longest * self.geometry.token_bytes > GATHER_BYTES

    def _batch(self, sequences: list[int], visible: Int) -> Part:
        lengths = visible[sequences]
        longest = max(1, int(lengths.max()))
        slots = np.zeros((len(sequences), longest), np.int64)
        for row, sequence in zip(slots, sequences, strict=True):
            end, length = int(self.entries[sequence]), int(visible[sequence])
            row[:length] = self._slots(sequence, end - length, end)
        mask = None
        if int(lengths.min()) < longest:
            mask = self._upload(np.arange(longest) < lengths[:, None])[:, None, None]
        rows = self.starts[sequences].astype(np.int64)
        first = (self.entries[sequences] - lengths).astype(np.int64)
        return Part(
            self._index(rows),
            self._is_all(rows),
            len(sequences),
            self._index(slots.ravel()),
            self._upload(first) if first.any() else 0,
            _mask=mask,
        )

    def _run(self, sequence: int) -> Iterator[Part]:
        """The queries of one sequence, in slabs whose mask is not too large."""
        start, end = self.starts[sequence : sequence + 2].tolist()
        context = int(self.contexts[sequence])
        before = context - (end - start)
        if self._is_plainly_causal(before, context):
            yield self._slab(sequence, start, end, before, causal=True)
            return
        while start < end:
            rows = max(1, MASK_ELEMENTS // (self.geometry.score_rows * (before + 1)))
            rows = max(1, MASK_ELEMENTS // (self.geometry.score_rows * (before + min(rows, end - start))))
            stop = min(end, start + rows)
            yield self._slab(sequence, start, stop, before, causal=False)
            before, start = before + stop - start, stop

    def _is_plainly_causal(self, before: int, context: int) -> bool:
        window = self.geometry.window
        causal = self.geometry.causal_kernel and self.geometry.stride == 1
        return causal and before == 0 and (window is None or window >= context)

    def _slab(self, sequence: int, start: int, stop: int, first: int, *, causal: bool) -> Part:
        """Rows ``start .. stop-1``, which stand at positions ``first ..``. It has at least one entry, seen or not."""
        last, low = first + stop - start - 1, self.geometry.visible(first)[0]
        high = max(low + 1, self.geometry.visible(last)[1])
        band = _Band(first, last, low, high, self.geometry, self.device)
        return Part(
            slice(start, stop),
            start == 0 and stop == self.starts[-1],
            1,
            self._index(self._slots(sequence, low, high)),
            low,
            causal,
            None if causal else self._kept(band),
        )

    def _kept(self, band: _Band) -> torch.Tensor | _Band:
        """The mask itself as long as all of them are small together, else the way to build it in every layer."""
        elements = (band.last - band.first + 1) * self.geometry.group * (band.high - band.low)
        self.kept_mask += elements
        return band.build() if self.kept_mask <= MASK_ELEMENTS else band

    def _slots(self, sequence: int, low: int, high: int) -> npt.NDArray[np.int64]:
        places = np.arange(low, high, dtype=np.int64)
        size = self.geometry.block_size
        slots: npt.NDArray[np.int64] = self.table[sequence, places // size].astype(np.int64) * size + places % size
        return slots

    def _is_all(self, rows: npt.NDArray[np.int64]) -> bool:
        return len(rows) == int(self.starts[-1])

    def _index(self, values: npt.NDArray[np.int64]) -> Index:
        """A slice where ``values`` are consecutive."""
        first = int(values[0])
        if int(values[-1]) - first == len(values) - 1 and bool((np.diff(values) == 1).all()):
            return slice(first, first + len(values))
        return self._upload(values)

    def _upload(self, values: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)
