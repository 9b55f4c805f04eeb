"""Which tokens run in the next step: continuous batching with chunked prefill and preemption by recomputation.

Prefill and decode share one budget of tokens, as in vLLM's V1 scheduler: a request simply has tokens that are not
computed yet, one of them when it is generating.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from .kv_cache import KVCacheManager
from .request import Request


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens ``start .. end-1`` of one request, to be run in this step."""

    request: Request
    start: int
    end: int

    @property
    def last(self) -> bool:
        """After this chunk all tokens are computed, so the next one can be sampled."""
        return self.end >= self.request.length

    @property
    def draft_length(self) -> int:
        """How many of its tokens are a draft."""
        return max(0, self.end - self.request.length)


class Scheduler:
    """Holds the waiting and the running requests."""

    def __init__(
        self, cache: KVCacheManager, *, max_num_seqs: int, max_num_batched_tokens: int, by_priority: bool = False
    ) -> None:
        self.cache = cache
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.preemptions = 0
        self._max_sequences = max_num_seqs
        self._max_tokens = max_num_batched_tokens
        self._by_priority = by_priority

    def add(self, request: Request) -> None:
        """Queue a request: behind all others, or behind those of the same or a lower priority value."""
        request.status = "waiting"
        bisect.insort_right(self.waiting, request, key=self._rank)

    def finish(self, request: Request) -> None:
        """Forget a request, whatever it is doing, and free its blocks."""
        if request.status == "running":
            self.running.remove(request)
        elif request.status == "waiting":
            self.waiting.remove(request)
        request.status = "finished"
        self.cache.free(request.id)

    def schedule(self) -> list[Chunk]:
        """The chunks of the next step, running requests first. Empty when there is nothing to do."""
        budget = self._max_tokens
        chunks: list[Chunk] = []
        preempted = self.preemptions
        for chunk in self._schedule_running(budget):
            chunks.append(chunk)
            budget -= chunk.end - chunk.start
        if preempted == self.preemptions:
            chunks.extend(self._admit(budget))
        return chunks

    def _schedule_running(self, budget: int) -> Iterator[Chunk]:
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            count = self._chunk_size(request, budget)
            if not self._make_room(request, count):
                return
            budget -= count
            index += 1
            yield Chunk(request, request.computed, request.computed + count)

    def _make_room(self, request: Request, count: int) -> bool:
        """Allocate, preempting the requests of lowest rank; false when ``request`` itself had to go."""
        keep_state = request.draft_length > 0
        while not self.cache.allocate(request.id, request.computed, count, keep_state=keep_state):
            victim = self._victim()
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _victim(self) -> Request:
        return self.running[-1]

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.cache.free(request.id)
        request.computed = 0
        request.draft = None
        request.status = "waiting"
        self.preemptions += 1
        bisect.insort_left(self.waiting, request, key=self._rank)

    def _admit(self, budget: int) -> Iterator[Chunk]:
        while self.waiting and budget > 0 and len(self.running) < self._max_sequences:
            request = self.waiting[0]
            request.computed = self.cache.start(request)
            count = self._chunk_size(request, budget)
            if not self.cache.allocate(request.id, request.computed, count):
                self.cache.free(request.id)
                return
            self.waiting.pop(0)
            if not request.output_token_ids:
                request.cached = request.computed
            request.status = "running"
            bisect.insort_right(self.running, request, key=self._rank)
            budget -= count
            yield Chunk(request, request.computed, request.computed + count)

    def _chunk_size(self, request: Request, budget: int) -> int:
        """How many tokens to run next. Ends with a whole block where a snapshot is to be kept there."""
        end = min(request.length + request.draft_length, request.computed + budget)
        size = self.cache.block_size
        whole = min(end, request.length - 1) // size * size
        if self.cache.keeps_snapshots and whole > request.computed:
            end = whole
        return end - request.computed

    def _rank(self, request: Request) -> tuple[int, float]:
        return (request.priority if self._by_priority else 0, request.arrival)
