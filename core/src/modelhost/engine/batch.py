"""The input arrays of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelhost.graph.cache import entry_slots

from .kv_cache import KVCacheManager
from .scheduler import Chunk

Int = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class LogitSpan:
    """Rows ``start .. end-1`` of a step's logits belong to ``chunk``."""

    chunk: Chunk
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One step.

    Attributes:
        inputs: every array that a graph may ask for, by input name, and ``generated``: see
            :meth:`~modelhost.api.backend.Executable.run`.
        spans: whose logits are where.
    """

    inputs: dict[str, Int]
    spans: list[LogitSpan]


def build_batch(chunks: Sequence[Chunk], cache: KVCacheManager) -> Batch:
    """Lay the tokens of ``chunks`` one after another.

    Logits are wanted for the last token of a chunk that completes its request, and for every token of a prompt whose
    log-probabilities were asked for.
    """
    spans = _logit_spans(chunks)
    counts = np.array([chunk.end - chunk.start for chunk in chunks], np.int32)
    starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    inputs: dict[str, Int] = {
        "token_ids": _array(chunks, lambda c: c.request.tokens(c.start, c.end)),
        "positions": _array(chunks, lambda c: range(c.start, c.end)),
        "lengths": _array(chunks, _lengths),
        "generated": _array(chunks, _generated),
        "sequence_starts": starts,
        "context_lengths": np.array([chunk.end for chunk in chunks], np.int32),
        "logit_rows": _logit_rows(spans, dict(zip(chunks, starts.tolist(), strict=False))),
    }
    for group in cache.groups:
        if group.recurrent:
            slots = np.array([cache.slots(group.name, chunk.request.id) for chunk in chunks], np.int32)
            inputs[f"read_slots.{group.name}"] = np.ascontiguousarray(slots[:, 0])
            inputs[f"write_slots.{group.name}"] = np.ascontiguousarray(slots[:, 1])
            continue
        tables = [cache.block_table(group.name, chunk.request.id) for chunk in chunks]
        inputs[f"block_table.{group.name}"] = _padded(tables)
        inputs[f"slot_mapping.{group.name}"] = _slots(chunks, tables, cache.block_size, group.stride)
    return Batch(inputs, spans)


def _array(chunks: Sequence[Chunk], values: Callable[[Chunk], Iterable[int]]) -> Int:
    return np.fromiter((value for chunk in chunks for value in values(chunk)), np.int32)


def _lengths(chunk: Chunk) -> Iterable[int]:
    prompt = chunk.request.prompt_length
    return (max(prompt, position + 1) for position in range(chunk.start, chunk.end))


def _generated(chunk: Chunk) -> Iterable[int]:
    prompt = chunk.request.prompt_length
    return (int(position >= prompt) for position in range(chunk.start, chunk.end))


def _logit_spans(chunks: Sequence[Chunk]) -> list[LogitSpan]:
    spans: list[LogitSpan] = []
    row = 0
    for chunk in chunks:
        count = _wanted(chunk)
        if count:
            spans.append(LogitSpan(chunk, row, row + count))
            row += count
    return spans


def _wanted(chunk: Chunk) -> int:
    """How many of the chunk's last tokens need logits."""
    in_prompt = chunk.start < chunk.request.prompt_length
    if chunk.request.params.prompt_logprobs is not None and in_prompt:
        return chunk.end - chunk.start
    return 1 + chunk.draft_length if chunk.last else 0


def _logit_rows(spans: list[LogitSpan], first_rows: dict[Chunk, int]) -> Int:
    rows: list[int] = []
    for span in spans:
        end = first_rows[span.chunk] + span.chunk.end - span.chunk.start
        rows.extend(range(end - (span.end - span.start), end))
    return np.array(rows, np.int32)


def _padded(tables: list[list[int]]) -> Int:
    result = np.zeros((len(tables), max(map(len, tables))), np.int32)
    for row, table in zip(result, tables, strict=True):
        row[: len(table)] = table
    return result


def _slots(chunks: Sequence[Chunk], tables: list[list[int]], block_size: int, stride: int) -> Int:
    places = [np.arange(chunk.start, chunk.end, dtype=np.int32) for chunk in chunks]
    arrays = [np.asarray(table, np.int32) for table in tables]
    return np.concatenate([entry_slots(t, p, block_size, stride) for t, p in zip(arrays, places, strict=True)])
