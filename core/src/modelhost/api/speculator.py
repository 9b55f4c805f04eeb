"""What a speculator implements: it proposes tokens, the engine verifies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Draft", "SpeculatedSequence", "SpeculationContext", "SpeculatorMethod"]


@dataclass(frozen=True, slots=True)
class SpeculationContext:
    """What a speculator may know of the model that it speculates for.

    Attributes:
        vocab_size: number of logits.
        max_model_len: tokens of prompt and answer together.
        num_speculative_tokens: most tokens that are asked for at a time.
    """

    vocab_size: int
    max_model_len: int
    num_speculative_tokens: int


@dataclass(frozen=True, slots=True)
class SpeculatedSequence:
    """A sequence that is generating.

    Attributes:
        request_id: the same in every step of the sequence.
        token_ids: prompt and answer so far. It only ever grows.
        count: most tokens to propose.
    """

    request_id: str
    token_ids: Sequence[int]
    count: int


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens.

    Attributes:
        token_ids: in order; may be empty.
        probabilities: float32 ``[tokens, vocab_size]``, what each was drawn from; ``None`` when nothing was drawn, as
            with tokens looked up or taken greedily.
    """

    token_ids: Sequence[int] = ()
    probabilities: npt.NDArray[np.float32] | None = None


class SpeculatorMethod(Protocol):
    """Proposes tokens for many sequences.

    The target of a :class:`~modelhost.api.Speculator` record is a callable
    ``(context: SpeculationContext, settings: object | None) -> SpeculatorMethod``.
    """

    def propose(self, sequences: Sequence[SpeculatedSequence]) -> Sequence[Draft]:
        """A draft for each of ``sequences``, in order."""
        ...

    def finish(self, request_id: str) -> None:
        """The sequence is over: forget what was kept of it."""
        ...
