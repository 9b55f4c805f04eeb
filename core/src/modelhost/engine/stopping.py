"""When a sequence ends: at a token, at a length, or at a stop string in its text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .sampling_params import SamplingParams

__all__ = ["Ending", "StopStrings", "TokenStops"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a sequence ended.

    Attributes:
        finish_reason: ``"stop"`` or ``"length"``.
        stop_reason: the id of the stop token; None for an end token of the model and for a length.
        hides_token: whether the text is to leave the last token out.
    """

    finish_reason: Literal["stop", "length"]
    stop_reason: int | None = None
    hides_token: bool = False


class TokenStops:
    """The conditions on tokens: the model's end tokens, the request's stop tokens, then the lengths.

    Args:
        eos_token_ids: the model's end tokens.
        max_model_len: tokens that prompt and output may have together.
    """

    def __init__(self, params: SamplingParams, eos_token_ids: Iterable[int], max_model_len: int) -> None:
        self._params = params
        self._max_model_len = max_model_len
        self._eos = frozenset() if params.ignore_eos else frozenset(eos_token_ids)
        self._stop = frozenset(params.stop_token_ids or ())

    def check(self, output_token_ids: Sequence[int], prompt_length: int) -> Ending | None:
        """Whether the sequence ends with the last of ``output_token_ids``."""
        if not output_token_ids:
            return None
        token_id, length = output_token_ids[-1], len(output_token_ids)
        if length >= self._params.min_tokens and (token_id in self._eos or token_id in self._stop):
            reason = None if token_id in self._eos else token_id
            return Ending("stop", reason, hides_token=not self._params.include_stop_str_in_output)
        full = prompt_length + length >= self._max_model_len
        return Ending("length") if full or length == self._params.max_tokens else None


@dataclass(slots=True, eq=False)
class _Node:
    """A prefix of one or more stop strings, ``depth`` characters long.

    Attributes:
        fallback: the longest proper suffix of it that is a prefix too; None for the empty one.
        match: the first stop string, by place in the list, that it ends with.
    """

    depth: int = 0
    children: dict[str, _Node] = field(default_factory=dict)
    fallback: _Node | None = None
    match: int | None = None


class StopStrings:
    """Finds the first stop string in text that arrives in pieces, and holds back text that may become one.

    The string that is complete first wins; of those complete at the same character the first in the list, as in vLLM.
    What is emitted does not depend on how the text is cut into pieces. A character costs the same on average, however
    many strings there are (Aho and Corasick 1975).

    Args:
        stop: the strings, none empty.
        include: emit the stop string too. Then nothing is held back.
    """

    def __init__(self, stop: Sequence[str] | None, include: bool = False) -> None:
        self._stop = (stop,) if isinstance(stop, str) else tuple(stop or ())
        self._include = include
        self._node = _automaton(self._stop)
        self._held = ""
        self._stopped_on: str | None = None

    def push(self, text: str, check: bool = True) -> tuple[str, str | None]:
        """Take the next piece of text.

        Args:
            check: False lets strings that become complete in this piece pass, as before ``min_tokens``.

        Returns:
            The text that may be shown now, and the stop string once one is complete: text after it is dropped.
        """
        if self._stopped_on is not None:
            return "", self._stopped_on
        for index, character in enumerate(text if self._stop else ""):
            self._node = _step(self._node, character)
            if self._node.match is not None and check:
                return self._stop_after(text[: index + 1], self._stop[self._node.match])
        return self._release(text), None

    def finish(self) -> str:
        """The text still held back when the sequence ends without a stop string."""
        rest, self._held = self._held, ""
        return rest

    def _stop_after(self, text: str, stop: str) -> tuple[str, str]:
        seen = self._held + text
        self._held, self._stopped_on = "", stop
        return (seen if self._include else seen[: len(seen) - len(stop)]), stop

    def _release(self, text: str) -> str:
        node = self._node
        while not node.children and node.fallback is not None:
            node = node.fallback
        seen = self._held + text
        shown = len(seen) if self._include else len(seen) - node.depth
        self._held = seen[shown:]
        return seen[:shown]


def _step(node: _Node, character: str) -> _Node:
    while character not in node.children:
        if node.fallback is None:
            return node
        node = node.fallback
    return node.children[character]


def _automaton(strings: Sequence[str]) -> _Node:
    root = _Node()
    for index, text in enumerate(strings):
        node = root
        for character in text:
            node = node.children.setdefault(character, _Node(node.depth + 1))
        node.match = index if node.match is None else node.match
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for character, child in node.children.items():
            child.fallback = root if node.fallback is None else _step(node.fallback, character)
            suffix = child.fallback.match
            child.match = min((m for m in (child.match, suffix) if m is not None), default=None)
            queue.append(child)
    return root
