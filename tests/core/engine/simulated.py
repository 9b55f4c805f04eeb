"""An executable without weights that checks what the engine feeds it.

It keeps the token of every slot, as a KV cache keeps keys, and fails when a block table does not lead back to the
sequence's own tokens. A group with a stride keeps the last token of every entry. A recurrent group keeps in every slot
all tokens that its state has seen. The logits are a pure function of a sequence's tokens, so the right output is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from modelhost.api.backend import CacheLayout
from modelhost.api.speculator import SpeculatorMethod
from modelhost.engine.config import EngineConfig
from modelhost.engine.engine import Engine
from modelhost.engine.kv_cache import KVGroup
from modelhost.engine.memory import MemoryPlan
from modelhost.graph.cache import block_entries

VOCAB = 50


def next_token(tokens: Sequence[int]) -> int:
    """The greedy continuation of ``tokens``: depends on all of them."""
    return sum((index + 1) * (token + 1) for index, token in enumerate(tokens)) % VOCAB


def continuation(prompt: Sequence[int], count: int) -> list[int]:
    """``count`` greedy tokens after ``prompt``."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


@dataclass
class SimulatedExecutable:
    """See the module's docstring.

    Attributes:
        groups: the paged KV groups, by name their window.
        recurrent: there is a recurrent group too.
        strides: the groups with a stride, by name their stride.
        layout: blocks of each.
        steps: the number of tokens of every step so far.
        origins: for every sequence of every step all its tokens and, for those of the step, the input ``generated``.
    """

    groups: Mapping[str, int | None]
    layout: CacheLayout
    recurrent: bool = False
    strides: Mapping[str, int] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    origins: list[tuple[list[int], list[int]]] = field(default_factory=list)
    most_sequences: int = 0
    states: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.layout.block_size
        self.slots = {name: np.full(self.layout.blocks[name] * size, -1) for name in self.groups}
        for name, stride in self.strides.items():
            self.slots[name] = np.full(self.layout.blocks[name] * block_entries(size, stride), -1)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.steps.append(len(inputs["token_ids"]))
        starts, contexts = inputs["sequence_starts"], inputs["context_lengths"]
        self.most_sequences = max(self.most_sequences, len(contexts))
        for name in self.groups:
            mapping = inputs[f"slot_mapping.{name}"]
            assert len(set(mapping.tolist())) == len(mapping), "two tokens share a slot"
            assert mapping.min() >= self.layout.block_size, "a token was put into the null block"
            self.slots[name][mapping] = inputs["token_ids"]
        for name, stride in self.strides.items():
            mapping, size = inputs[f"slot_mapping.{name}"], block_entries(self.layout.block_size, stride)
            complete = (inputs["positions"] + 1) % stride == 0
            assert (mapping[complete] >= size).all(), "an entry was put into the null block"
            assert (mapping[~complete] == 0).all(), "a token that completes no entry was put into the cache"
            assert len(set(mapping[complete].tolist())) == complete.sum(), "two entries share a slot"
            self.slots[name][mapping[complete]] = inputs["token_ids"][complete]
        logits = np.zeros((len(inputs["logit_rows"]), VOCAB), np.float32)
        histories: dict[int, list[int]] = {}
        for sequence, context in enumerate(contexts.tolist()):
            begin, end = starts[sequence : sequence + 2].tolist()
            assert inputs["positions"][begin:end].tolist() == list(range(context - (end - begin), context))
            for name, window in self.groups.items():
                self._check(name, window, inputs, sequence, context, end - begin)
            tokens = self._tokens(inputs, sequence, context)
            self.origins.append((tokens, inputs["generated"][begin:end].tolist()))
            for name, stride in self.strides.items():
                entries = self._entries(name, stride, inputs, sequence, context)
                assert entries == tokens[stride - 1 :: stride], "the entries are not those of the tokens before"
            if self.recurrent:
                self._advance(inputs, sequence, tokens, end - begin)
            for row in range(begin, end):
                histories[row] = tokens[: context - (end - row) + 1]
        for out, row in zip(logits, inputs["logit_rows"].tolist(), strict=True):
            out[next_token(histories[row])] = 1.0
        return {"logits": logits}

    def _advance(self, inputs: Mapping[str, np.ndarray], sequence: int, tokens: list[int], new: int) -> None:
        read = int(inputs["read_slots.recurrent"][sequence])
        write = int(inputs["write_slots.recurrent"][sequence])
        assert write not in np.delete(inputs["write_slots.recurrent"], sequence), "two sequences write one slot"
        seen = [] if new == len(tokens) else self.states[read]
        assert seen == tokens[: len(tokens) - new], "the state is not that of the tokens before"
        self.states[write] = list(tokens)

    def _tokens(self, inputs: Mapping[str, np.ndarray], sequence: int, context: int) -> list[int]:
        name = next(name for name, window in self.groups.items() if window is None)
        return self._read(name, inputs, sequence, 0, context)

    def _read(self, name: str, inputs: Mapping[str, np.ndarray], sequence: int, low: int, high: int) -> list[int]:
        places = np.arange(low, high)
        table, size = inputs[f"block_table.{name}"][sequence], self.layout.block_size
        return self.slots[name][table[places // size] * size + places % size].tolist()

    def _entries(
        self, name: str, stride: int, inputs: Mapping[str, np.ndarray], sequence: int, context: int
    ) -> list[int]:
        places, size = np.arange(context // stride), block_entries(self.layout.block_size, stride)
        table = inputs[f"block_table.{name}"][sequence]
        return self.slots[name][table[places // size] * size + places % size].tolist()

    def _check(
        self, name: str, window: int | None, inputs: Mapping[str, np.ndarray], sequence: int, context: int, new: int
    ) -> None:
        low = 0 if window is None else max(0, context - new - window + 1)
        assert self._read(name, inputs, sequence, low, context) == self._tokens(inputs, sequence, context)[low:]


def simulated_engine(
    *,
    blocks: int = 100,
    block_size: int = 4,
    window: int | None = None,
    slots: int = 0,
    strides: tuple[int, ...] = (),
    max_model_len: int = 64,
    tokenizer: object = None,
    eos: tuple[int, ...] = (),
    speculator: SpeculatorMethod | None = None,
    **settings: object,
) -> tuple[Engine, SimulatedExecutable]:
    """An engine over a simulated executable. ``blocks`` of each KV group are usable, and ``slots`` recurrent states."""
    windows: dict[str, int | None] = {"full": None}
    if window is not None:
        windows[f"sliding_{window}"] = window
    groups = tuple(KVGroup(name, size, 8) for name, size in windows.items())
    strided = {f"strided_{stride}": stride for stride in strides}
    groups += tuple(KVGroup(name, None, 8, stride=stride) for name, stride in strided.items())
    paged = dict.fromkeys((*windows, *strided), blocks + 1)
    layout = CacheLayout(block_size, paged | ({"recurrent": slots + 1} if slots else {}))
    if slots:
        groups = (*groups, KVGroup("recurrent", bytes_per_slot=8))
    memory = MemoryPlan(0, 0, 0, 0, 0, max_model_len, layout, groups)
    executable = SimulatedExecutable(windows, layout, bool(slots), strided)
    config = EngineConfig.parse(block_size=block_size, **settings)
    engine = Engine(
        executable, memory, config, vocab_size=VOCAB, eos_token_ids=eos, tokenizer=tokenizer, speculator=speculator
    )
    return engine, executable
