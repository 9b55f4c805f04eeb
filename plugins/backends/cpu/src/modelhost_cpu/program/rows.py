"""Which kernels compute which rows: a row's path follows from the origin of its token, never from its company."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .builder import Derivation, ProgramBuilder
from .views import Slot, View

if TYPE_CHECKING:
    import numpy.typing as npt

    Int = npt.NDArray[np.int32]

_TOKENS = "T"


@dataclass(frozen=True, slots=True)
class RowSet:
    """Some rows of a view.

    Attributes:
        count: how many.
        indices: int32, their numbers, rising; ``None`` when they are all rows in order.
    """

    count: Slot
    indices: Slot | None = None


def prompt_and_generated(b: ProgramBuilder, x: View) -> tuple[RowSet | None, RowSet | None]:
    """The rows of prompt tokens, and those of generated tokens; ``None`` where a program never has any.

    Rows that are no tokens, such as those that logits are computed for, count as generated. So do all rows of a program
    that is to be deterministic, and of one for a CPU without matrix instructions.
    """
    one_path = b.options.deterministic or not b.target.has("amx-bf16")
    if one_path or x.symbol != _TOKENS:
        return None, RowSet(x.rows)
    sets = []
    for name, generated in (("prompt_rows", False), ("generated_rows", True)):
        indices, count = b.derive(f"{name}.{x.rows.scale}", _rows(generated, x.rows.scale))
        sets.append(RowSet(count, indices))
    return sets[0], sets[1]


def _rows(generated: bool, scale: int) -> Derivation:
    """Numbers of the rows of tokens of one origin, each token having ``scale`` consecutive rows."""

    def make(inputs: Mapping[str, Int]) -> Int:
        tokens = _token_count(inputs)
        flags = inputs.get("generated")
        chosen = np.arange(0 if generated else tokens) if flags is None else np.flatnonzero((flags != 0) == generated)
        rows = chosen[:, None] * scale + np.arange(scale)
        return np.ascontiguousarray(rows.reshape(-1), np.int32)

    return make


def _token_count(inputs: Mapping[str, Int]) -> int:
    per_token = ("token_ids", "positions", "lengths", "generated")
    given = next((inputs[name] for name in per_token if name in inputs), None)
    if given is None:
        given = next(array for name, array in inputs.items() if name.startswith("slot_mapping."))
    return len(given)
