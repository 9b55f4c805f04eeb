"""The memory that a model takes, known before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modelhost.api import MemoryBudgetError
from modelhost.api.backend import CacheLayout, KernelBackend
from modelhost.graph.graph import Graph

from .config import EngineConfig
from .kv_cache import KVGroup, kv_groups

_RESERVE = 0.9
_HOST_CACHE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by use, and the size of the KV cache that follows.

    Attributes:
        weights: as the backend keeps them.
        encoded: as they lie in the checkpoint.
        workspace: of the largest step.
        cache: of the KV cache.
        available: the budget.
        max_model_len: tokens that one sequence can have.
        layout: blocks of every KV group.
        groups: the KV groups.
        sizes: the value of every symbol in the largest step, and of ``block_size``.
    """

    weights: int
    encoded: int
    workspace: int
    cache: int
    available: int
    max_model_len: int
    layout: CacheLayout
    groups: tuple[KVGroup, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Peak bytes."""
        return self.weights + self.workspace + self.cache

    def cache_tokens(self) -> int:
        """Tokens that the full-attention groups hold, or the largest group when there are none."""
        paged = [group for group in self.groups if not group.recurrent]
        full = [group for group in paged if group.window is None] or paged
        return max((self._tokens(group) for group in full), default=0)

    def _tokens(self, group: KVGroup) -> int:
        return (self.layout.blocks[group.name] - 1) * group.tokens_per_block(self.layout.block_size)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Label and text of every line of the printed plan."""
        yield "weights", f"{gib(self.weights)} ({gib(self.encoded)} in the checkpoint)"
        for group in self.groups:
            blocks = self.layout.blocks[group.name]
            size = gib(blocks * group.bytes_per_block(self.layout.block_size))
            if group.recurrent:
                yield "recurrent states", f"{size} ({blocks - 1:,} slots, {group.bytes_per_slot:,} bytes each)"
            else:
                each = "each" if group.stride == 1 else f"for every {group.stride}"
                label = f"KV cache, {group.name.replace('_', ' ')}"
                yield label, f"{size} ({self._tokens(group):,} tokens, {group.bytes_per_token:,} bytes {each})"
        yield "workspace", gib(self.workspace)
        yield "peak", gib(self.total)
        yield "budget", gib(self.available)
        yield "context", f"{self.max_model_len:,} tokens"


def gib(size: int) -> str:
    """``size`` bytes in the unit that reads best."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def plan_memory(
    graph: Graph,
    backend: KernelBackend,
    encoded: Mapping[str, tuple[str, int]],
    config: EngineConfig,
    trained_length: int,
) -> MemoryPlan:
    """Size everything.

    Args:
        graph: optimised for ``backend``.
        encoded: encoding and bytes in the checkpoint of every parameter of ``graph``.
        trained_length: tokens that the model was trained for.

    Raises:
        MemoryBudgetError: the budget does not hold the weights, the workspace and one sequence of ``max_model_len``;
            the text has the numbers and what would fit.
    """
    return _Planner(graph, backend, encoded, config, trained_length).plan()


class _Planner:
    def __init__(
        self,
        graph: Graph,
        backend: KernelBackend,
        encoded: Mapping[str, tuple[str, int]],
        config: EngineConfig,
        trained_length: int,
    ) -> None:
        self.config = config
        self.backend = backend
        self.graph = graph
        specs = [state.spec for state in graph.states.values()]
        self.groups = kv_groups(specs, backend.dtype)
        self.encoded = sum(size for _, size in encoded.values())
        self.weights = sum(backend.resident_bytes(p, *encoded[name]) for name, p in graph.parameters.items())
        self.available = config.memory_bytes or int(backend.free_memory() * _RESERVE)
        self.wanted_length = config.max_model_len or trained_length
        self._workspaces: dict[tuple[tuple[str, int], ...], int] = {}

    def plan(self) -> MemoryPlan:
        length = self.wanted_length
        if not self._fits(length):
            length = self._longest_fitting()
            if self.config.max_model_len is not None or length == 0:
                raise self._too_big(length)
        budget = self._cache_budget(length)
        scale = min(self.config.max_num_seqs, budget / max(1, self._sequence_bytes(length)))
        blocks = {group.name: int(self._sequence_blocks(group, length) * scale) + 1 for group in self.groups}
        layout = CacheLayout(self.config.block_size, blocks)
        cache = sum(blocks[g.name] * g.bytes_per_block(self.config.block_size) for g in self.groups)
        workspace, sizes = self._workspace(length), self._sizes(length)
        return MemoryPlan(
            self.weights, self.encoded, workspace, cache, self.available, length, layout, self.groups, sizes
        )

    def _step_tokens(self, length: int) -> int:
        return min(self.config.max_num_batched_tokens, length * self.config.max_num_seqs)

    def _workspace(self, length: int) -> int:
        sizes = self._sizes(length)
        key = tuple(sizes.items())
        if key not in self._workspaces:
            self._workspaces[key] = self.backend.workspace_bytes(self.graph, sizes)
        return self._workspaces[key]

    def _sizes(self, length: int) -> dict[str, int]:
        """Of the largest step: a full budget of tokens, and a row of logits for every token that may be sampled."""
        rows = self.config.max_num_seqs * (1 + self.config.num_speculative_tokens)
        tokens = self._step_tokens(length)
        sizes = {"T": tokens, "B": self.config.max_num_seqs, "S": min(rows, tokens)}
        sizes["block_size"] = self.config.block_size
        size = self.config.block_size
        return sizes | {f"blocks.{g.name}": -(-length // g.tokens_per_block(size)) for g in self.groups}

    def _sequence_blocks(self, group: KVGroup, length: int) -> int:
        return group.blocks_per_sequence(length, min(length, self._step_tokens(length)), self.config.block_size)

    def _sequence_bytes(self, length: int) -> int:
        size = self.config.block_size
        return sum(self._sequence_blocks(group, length) * group.bytes_per_block(size) for group in self.groups)

    def _null_blocks(self) -> int:
        return sum(group.bytes_per_block(self.config.block_size) for group in self.groups)

    def _cache_budget(self, length: int) -> int:
        """Bytes for the cache without the null blocks."""
        left = self.available - self.weights - self._workspace(length) - self._null_blocks()
        if self.config.kv_cache_memory_bytes is not None:
            return min(left, self.config.kv_cache_memory_bytes - self._null_blocks())
        share = _HOST_CACHE_SHARE if self.backend.device == "cpu" and self.config.memory_bytes is None else 1.0
        return max(int(left * share), min(left, self._sequence_bytes(length)))

    def _fits(self, length: int) -> bool:
        return self._sequence_bytes(length) <= self._cache_budget(length)

    def _longest_fitting(self) -> int:
        """The longest context that fits, in whole blocks; 0 when none does."""
        low, high = 0, self.wanted_length // self.config.block_size
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(middle * self.config.block_size) else (low, middle - 1)
        return low * self.config.block_size

    def _too_big(self, fitting: int) -> MemoryBudgetError:
        length = self.wanted_length if self.config.max_model_len is not None else self.config.block_size
        need = self.weights + self._workspace(length) + self._sequence_bytes(length) + self._null_blocks()
        lines = [
            f"the model needs {gib(need)} for one sequence of {length} tokens, and {gib(self.available)} are "
            f"available: weights {gib(self.weights)}, workspace {gib(self._workspace(length))}, "
            f"KV cache {gib(self._sequence_bytes(length) + self._null_blocks())}.",
            "What would help:",
        ]
        if self.config.kv_cache_memory_bytes is not None:
            limit = gib(self.config.kv_cache_memory_bytes)
            lines.append(f"  a larger --kv-cache-memory-bytes than the {limit} given")
        if fitting:
            lines.append(f"  --max-model-len {fitting} fits")
        if self.backend.dtype == "float32":
            lines.append("  a backend with --dtype bfloat16 halves weights and cache")
        if self.config.max_num_batched_tokens > 512:
            lines.append("  a smaller --max-num-batched-tokens shrinks the workspace")
        lines.append("  a smaller model or a more strongly quantised one")
        return MemoryBudgetError("\n".join(lines))
