"""What a selection says about itself: one line for each candidate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal

from .info import PluginInfo, R_co, Registration

Verdict = Literal["chosen", "usable", "rejected", "lower", "broken", "incompatible", "disabled"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One record, or one plugin that could not be used, and what became of it.

    Attributes:
        id: of the record; that of the index of known plugins for a plugin that could not be used.
        owner: ``"distribution version"``.
        verdict: ``"chosen"``; ``"usable"`` (as good as another); ``"rejected"`` (cannot serve the request);
            ``"lower"`` (not tried, since one of higher rank is usable); or the state of its plugin.
        reason: one sentence.
    """

    id: str
    owner: str
    verdict: Verdict
    reason: str

    def __str__(self) -> str:
        return f"  {self.verdict:<12} {self.id} ({self.owner}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Selection(Generic[R_co]):
    """What was chosen, and the verdict on every candidate.

    Attributes:
        chosen: the registration.
        candidates: itself and those that lost.
        warning: what the user should know about the choice; to be printed.
    """

    chosen: Registration[R_co]
    candidates: tuple[Candidate, ...]
    warning: str | None = None

    def explain(self) -> str:
        """The choice, a line for each candidate, and the warning."""
        head = f"{self.chosen.kind}: {self.chosen.id} ({self.chosen.owner})"
        return "\n".join([head, *map(str, self.candidates), *([self.warning] if self.warning else [])])


def candidate(registration: Registration[R_co], verdict: Verdict, reason: str) -> Candidate:
    """The line for a record."""
    return Candidate(registration.id, registration.owner, verdict, reason)


def unusable(ids: Iterable[str], plugin: PluginInfo) -> Iterator[Candidate]:
    """The lines for a plugin that is known to provide ``ids``; none when it is usable."""
    if plugin.state != "ok":
        for id in ids:
            yield Candidate(id, f"{plugin.distribution} {plugin.version}", plugin.state, plugin.error or "")


def explained(reason: str, candidates: Iterable[Candidate]) -> str:
    """An error's text: the reason, then the line of each candidate."""
    return "\n".join([reason, *map(str, candidates)])
