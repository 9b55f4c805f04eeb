"""Which blocks of the caches hold which tokens of which sequence, and which prefixes can be used again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from modelhost.api import ConfigError
from modelhost.api.backend import CacheLayout
from modelhost.graph.cache import CacheSpec, RecurrentSpec, block_entries
from modelhost.graph.tensor import DType

from .block_pool import NULL_BLOCK, BlockPool
from .prefix import PrefixHashes
from .request import Request


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that keep the same tokens and share a block table, or all recurrent layers.

    Attributes:
        name: as in the graph's inputs ``block_table.<name>``.
        window: tokens that a query sees; ``None`` means all.
        bytes_per_token: of all its layers together, for one entry where there is a stride; 0 for recurrent layers.
        bytes_per_slot: of all states of one sequence together; 0 for paged layers.
        stride: tokens that one entry stands for.
    """

    name: str
    window: int | None = None
    bytes_per_token: int = 0
    bytes_per_slot: int = 0
    stride: int = 1

    @property
    def recurrent(self) -> bool:
        """Whether a block is the state of one sequence."""
        return self.bytes_per_slot > 0

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of one block, all layers together."""
        return self.bytes_per_slot or self.bytes_per_token * block_entries(block_size, self.stride)

    def tokens_per_block(self, block_size: int) -> int:
        """Tokens that one block stands for, a multiple of ``block_size``.

        Raises:
            ConfigError: neither of ``block_size`` and the stride divides the other.
        """
        tokens = self.stride * block_entries(block_size, self.stride)
        if tokens % block_size:
            raise ConfigError(
                f"block_size {block_size} does not fit the model, which keeps one cache entry for every {self.stride} "
                f"tokens: one must divide the other; choose for example --block-size {self.stride}"
            )
        return tokens

    def blocks_per_sequence(self, tokens: int, step_tokens: int, block_size: int) -> int:
        """Most blocks that a sequence of ``tokens`` holds at one time when a step adds up to ``step_tokens``."""
        if self.recurrent:
            return 2
        if self.window is not None:
            tokens = min(tokens, self.window + step_tokens + block_size)
        return -(-tokens // self.tokens_per_block(block_size))


def kv_groups(specs: Iterable[CacheSpec | RecurrentSpec], dtype: DType) -> tuple[KVGroup, ...]:
    """The groups of a model's caches, in order of first use. ``dtype`` is that of paged keys and values."""
    groups: dict[str, KVGroup] = {}
    for spec in specs:
        known = groups.get(spec.group, KVGroup(spec.group))
        if isinstance(spec, RecurrentSpec):
            groups[spec.group] = KVGroup(spec.group, bytes_per_slot=known.bytes_per_slot + spec.bytes_per_slot)
        else:
            size = known.bytes_per_token + spec.bytes_per_token(dtype)
            groups[spec.group] = KVGroup(spec.group, spec.window, size, stride=spec.stride)
    return tuple(groups.values())


@dataclass(slots=True)
class _Sequence:
    """What one sequence holds.

    Attributes:
        tables: blocks in order of every paged group; null where freed.
        read: of every recurrent group the slot that the next step reads; ``None`` before the first.
        write: the slot that it writes; ``None`` until there is room for one.
        hashes: of its whole blocks.
        registered: blocks whose prefix can be found.
        answering: the slots that are read next hold a snapshot within the answer.
    """

    hashes: PrefixHashes
    tables: dict[str, list[int]]
    read: dict[str, int | None]
    write: dict[str, int | None]
    registered: int = 0
    answering: bool = False

    def needs_slot(self, group: str, keep_state: bool) -> bool:
        """Whether the next step needs another slot of a recurrent group to write to."""
        write = self.write[group]
        return write is None or (keep_state and write == self.read[group])


class KVCacheManager:
    """Blocks of all running sequences.

    A group with a window frees the blocks that no later query can see. Whole blocks can be found by the prefix that
    they end, and a new sequence that begins with it starts from them. The state of recurrent layers is kept where a
    step ended with a whole block: the next step then writes to another slot, and the one that it reads is the snapshot.
    A block of a group with a stride can stand for several blocks of tokens; it is found by the prefix that ends with
    the last of them.

    Args:
        groups: of the model.
        layout: blocks of each.
        prefix_caching: whether prefixes are found again.
        length_dependent: cached values depend on the prompt's length too (dynamic and LongRoPE rotary embeddings).
    """

    def __init__(
        self,
        groups: tuple[KVGroup, ...],
        layout: CacheLayout,
        *,
        prefix_caching: bool = True,
        length_dependent: bool = False,
    ) -> None:
        self.groups = groups
        self.block_size = layout.block_size
        self._prefix_caching = prefix_caching
        self._length_dependent = length_dependent
        self._pools = {group.name: BlockPool(layout.blocks[group.name]) for group in groups}
        self._paged = tuple(group for group in groups if not group.recurrent)
        self._recurrent = tuple(group for group in groups if group.recurrent)
        self._span = {group.name: group.tokens_per_block(self.block_size) // self.block_size for group in self._paged}
        self._sequences: dict[str, _Sequence] = {}

    @property
    def keeps_snapshots(self) -> bool:
        """Whether it pays to end a step with a whole block."""
        return self._prefix_caching and bool(self._recurrent)

    def start(self, request: Request) -> int:
        """Begin a sequence, or begin it again.

        Blocks with tokens of its own answer are computed again: those that can be found may be of another sequence
        whose prompt has these tokens, and a backend may compute the tokens of prompts differently.

        Returns:
            how many of its first tokens are in the cache already: a whole number of blocks, and not all tokens.
        """
        salt = str(request.prompt_length).encode() if self._length_dependent else b""
        sequence = _Sequence(
            PrefixHashes(request, self.block_size, salt),
            {group.name: [] for group in self._paged},
            {group.name: None for group in self._recurrent},
            {group.name: None for group in self._recurrent},
        )
        self._sequences[request.id] = sequence
        if not self._prefix_caching or request.params.prompt_logprobs is not None:
            return 0
        most = min(request.length - 1, request.prompt_length) // self.block_size
        blocks = self._longest_match(sequence.hashes, most)
        self._share(sequence, blocks)
        return blocks * self.block_size

    def _longest_match(self, hashes: PrefixHashes, most: int) -> int:
        """Whole blocks at the start of a sequence that every group has what is needed of."""
        full = [group for group in self._paged if group.window is None]
        for group in full:
            pool, span = self._pools[group.name], self._span[group.name]
            ends = range(span - 1, most, span)
            most = next((block for block in ends if pool.find(hashes[block]) is None), most)
        return next((count for count in range(most, 0, -1) if self._has(hashes, count)), 0)

    def _has(self, hashes: PrefixHashes, count: int) -> bool:
        """Whether the groups other than those of full attention can continue after ``count`` blocks."""
        for group in self._recurrent:
            if self._pools[group.name].find(hashes[count - 1]) is None:
                return False
        windows = (group for group in self._paged if group.window is not None)
        return all(
            self._pools[group.name].find(hashes[block]) is not None
            for group in windows
            for block in range(self._first_seen(group, count * self.block_size), count)
        )

    def _first_seen(self, group: KVGroup, computed: int) -> int:
        """The first block that the query at position ``computed`` sees."""
        return 0 if group.window is None else max(0, computed - group.window + 1) // self.block_size

    def _share(self, sequence: _Sequence, count: int) -> None:
        if count == 0:
            return
        sequence.registered = count
        for group in self._paged:
            first, span = self._first_seen(group, count * self.block_size), self._span[group.name]
            found = [self._find(group, sequence.hashes[block]) for block in range(first + span - 1, count, span)]
            for block in found:
                self._pools[group.name].share(block)
            sequence.tables[group.name] = [NULL_BLOCK] * first + found
        for group in self._recurrent:
            slot = self._find(group, sequence.hashes[count - 1])
            self._pools[group.name].share(slot)
            sequence.read[group.name] = slot

    def _find(self, group: KVGroup, hash: bytes) -> int:
        block = self._pools[group.name].find(hash)
        if block is None:
            raise LookupError(f"no block of group {group.name} is registered under {hash.hex()}")
        return block

    def allocate(self, sequence: str, computed: int, new: int, *, keep_state: bool = False) -> bool:
        """Make room for ``new`` tokens of ``sequence`` after its first ``computed`` ones.

        Args:
            keep_state: leave the recurrent state that the step reads as it is, so that the step can be undone.

        Returns:
            False, with nothing taken, when a group lacks the blocks.
        """
        held = self._sequences[sequence]
        for group in self._paged:
            self._free_unseen(group, held.tables[group.name], computed)
        blocks = -(-(computed + new) // self.block_size)
        wanted = {name: -(-blocks // span) for name, span in self._span.items()}
        missing = {name: max(0, wanted[name] - len(held.tables[name])) for name in wanted}
        fresh = {group.name: held.needs_slot(group.name, keep_state) for group in self._recurrent}
        missing |= {name: int(needed) for name, needed in fresh.items()}
        if any(count > self._pools[name].free for name, count in missing.items()):
            return False
        for group in self._paged:
            held.tables[group.name].extend(self._pools[group.name].take(missing[group.name]))
        for name in (name for name, needed in fresh.items() if needed):
            [held.write[name]] = self._pools[name].take(1)
        return True

    def _free_unseen(self, group: KVGroup, table: list[int], computed: int) -> None:
        unseen = min(self._first_seen(group, computed), len(table))
        self._pools[group.name].give_back(table[:unseen])
        table[:unseen] = [NULL_BLOCK] * unseen

    def commit(self, sequence: str, computed: int) -> None:
        """A step has computed the tokens of ``sequence`` up to ``computed``: what is whole can be found from now on."""
        held = self._sequences[sequence]
        whole = computed // self.block_size
        for group in self._recurrent:
            self._advance(group, held, computed)
        held.answering = computed > held.hashes.prompt_length
        if not self._prefix_caching:
            return
        for block in range(held.registered, whole):
            for name, span in self._span.items():
                if (block + 1) % span == 0:
                    self._pools[name].register(held.tables[name][block // span], held.hashes[block])
        held.registered = max(held.registered, whole)

    def _advance(self, group: KVGroup, held: _Sequence, computed: int) -> None:
        """The slot that was written is read next, and kept when it is worth a snapshot.

        Of an answer only the last snapshot is: it makes room for the next one, so that the snapshots of prompts stay.
        """
        name, pool = group.name, self._pools[group.name]
        read, write = held.read[name], held.write[name]
        if read is not None and read != write:
            pool.give_back([read], first=held.answering)
        held.read[name] = write
        if self._prefix_caching and computed % self.block_size == 0 and write is not None and pool.free:
            pool.register(write, held.hashes[computed // self.block_size - 1])
            held.write[name] = None

    @property
    def recurrent(self) -> bool:
        """Whether there are recurrent states, which cannot be cut back to fewer tokens."""
        return bool(self._recurrent)

    def free(self, sequence: str) -> None:
        """Give back all blocks of ``sequence``, its last ones first to be used again; nothing when it has none."""
        held = self._sequences.pop(sequence, None)
        if held is None:
            return
        for name, table in held.tables.items():
            self._pools[name].give_back(reversed(table))
        for group in self._recurrent:
            slots = {held.read[group.name], held.write[group.name]} - {None}
            self._pools[group.name].give_back(slot for slot in slots if slot is not None)

    def block_table(self, group: str, sequence: str) -> list[int]:
        """Blocks of ``sequence`` in order; null where freed."""
        return self._sequences[sequence].tables[group]

    def slots(self, group: str, sequence: str) -> tuple[int, int]:
        """The slots of a recurrent group that the step reads and writes; the first step of a sequence reads none."""
        held = self._sequences[sequence]
        read, write = held.read[group], held.write[group]
        if write is None:
            raise LookupError(f"sequence {sequence} has no slot in group {group} to write to")
        return write if read is None else read, write

    def usage(self) -> float:
        """Share of the blocks that are taken, of the fullest group."""
        return max((1 - pool.free / pool.capacity for pool in self._pools.values() if pool.capacity), default=0.0)
