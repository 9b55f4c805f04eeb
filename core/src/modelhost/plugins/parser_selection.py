"""Chooses the parsers of a model's output, and says why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from modelhost.api import PluginError, ReasoningParser, Record, ToolParser, UnsupportedError

from .candidate import Candidate, Verdict, candidate, explained, unusable
from .info import Registration
from .known import known_plugins
from .registry import Registry

__all__ = ["AUTO", "NONE", "ModelTraits", "ParserSelection", "select_parser"]

AUTO, NONE = "auto", "none"
FLAGS: dict[type[Record], str] = {ToolParser: "--tool-call-parser", ReasoningParser: "--reasoning-parser"}
P = TypeVar("P", bound=ToolParser | ReasoningParser)
P_co = TypeVar("P_co", bound=ToolParser | ReasoningParser, covariant=True)


class Vocabulary(Protocol):
    """The part of a tokenizer that the selection uses."""

    def token_id(self, text: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What parsers are chosen by.

    Attributes:
        architecture: id of the model's architecture.
        template: source of its chat template; empty without one.
        vocabulary: its tokenizer, if it has one.
        distribution: package of the architecture.
    """

    architecture: str
    template: str = ""
    vocabulary: Vocabulary | None = None
    distribution: str = ""


@dataclass(frozen=True, slots=True)
class ParserSelection(Generic[P_co]):
    """The chosen parser, if any.

    Attributes:
        kind: ``"tool parser"`` or ``"reasoning parser"``.
        chosen: the registration; ``None`` when the output is not parsed.
        reason: why this one, or why none.
        candidates: the chosen one and those that have something in common with the model.
        others: how many more are installed.
        switched_off: ``"none"`` was asked for.
    """

    kind: str
    chosen: Registration[P_co] | None
    reason: str
    candidates: tuple[Candidate, ...] = ()
    others: int = 0
    switched_off: bool = False

    def __str__(self) -> str:
        if self.chosen is None:
            return f"none: {self.reason}"
        return f"{self.chosen.id} ({self.chosen.owner}): {self.reason}"

    def explain(self) -> str:
        """The choice, a line for each candidate, and the number of the others."""
        chosen = self.chosen
        head = f"{self.kind}: " + (f"{chosen.id} ({chosen.owner})" if chosen else f"none: {self.reason}")
        rest = [f"  {self.others} more are for other models"] if self.others else []
        return "\n".join([head, *map(str, self.candidates), *rest])


def select_parser(registry: Registry, kind: type[P], name: str, model: ModelTraits) -> ParserSelection[P]:
    """The parser called ``name``; for ``"auto"`` the one that fits the model, or none.

    A parser fits when all ``template`` texts of its record are in the chat template; one without such texts fits the
    architectures that its record lists. Of several that fit, those that list the architecture win over the others,
    then those whose texts include all texts of another. When several reasoning parsers fit equally well none is used,
    and the reason names the flags: the answer is whole without one. Calls of tools that were given would be lost, so
    several tool parsers are an error.

    Args:
        name: an id, ``"auto"`` or ``"none"``.

    Raises:
        PluginError: no usable plugin provides the named parser, or several tool parsers fit equally well; the text has
            the closest names, or a line for every candidate, and the flag.
        UnsupportedError: the tokenizer lacks markers that the named parser needs.
    """
    if name == NONE:
        return ParserSelection(kind.kind, None, f"{FLAGS[kind]} {NONE} was asked for", switched_off=True)
    if name == AUTO:
        return _Automatic(registry, kind, model).select()
    chosen = registry.find(kind, name)
    if lacking := _lacking(chosen, model):
        raise UnsupportedError(f"{kind.kind} {name!r} ({chosen.owner}) was asked for and cannot be used: {lacking}")
    reason = "asked for by name"
    return ParserSelection(kind.kind, chosen, reason, (candidate(chosen, "chosen", reason),))


class _Automatic(Generic[P]):
    """One selection without a name."""

    def __init__(self, registry: Registry, kind: type[P], model: ModelTraits) -> None:
        self.registry = registry
        self.kind = kind
        self.model = model
        self.lines: list[Candidate] = []

    def select(self) -> ParserSelection[P]:
        installed = self.registry.all(self.kind)
        if reason := self._reason_for_none(installed):
            return ParserSelection(self.kind.kind, None, reason, tuple(self._unusable()), len(installed))
        fitting = [one for one in installed if self._fits(one)]
        best = self._without_aliases(self._most_special(self._of_the_architecture(fitting)))
        self.lines += self._unusable()
        if not best:
            reason = f"no installed {self.kind.kind} fits its chat template{self._hint()}"
            return ParserSelection(self.kind.kind, None, reason, tuple(self.lines), self._others(installed))
        if len({one.id for one in best}) > 1:
            self.lines[:0] = [candidate(one, "usable", self._why(one)) for one in best]
            if self.kind is ToolParser:
                raise PluginError(explained(self._ambiguous(best), self.lines))
            reason = self._ambiguous(best)
            return ParserSelection(self.kind.kind, None, reason, tuple(self.lines), self._others(installed))
        chosen = self.registry.find(self.kind, best[0].id)
        reason = self._why(chosen)
        self.lines.insert(0, candidate(chosen, "chosen", reason))
        return ParserSelection(self.kind.kind, chosen, reason, tuple(self.lines), self._others(installed))

    def _reason_for_none(self, installed: Sequence[Registration[P]]) -> str | None:
        if self.model.vocabulary is None:
            return "the model has no tokenizer"
        if not self.model.template:
            return "the model has no chat template"
        return None if installed else f"no {self.kind.kind} is installed{self._hint()}"

    def _fits(self, one: Registration[P]) -> bool:
        record = one.record
        missing = [text for text in record.template if text not in self.model.template]
        listed = self.model.architecture in record.architectures
        if missing or not (record.template or listed):
            if listed:
                texts = _texts(missing)
                self._loses(one, "rejected", f"for {self.model.architecture}, but the chat template lacks {texts}")
            return False
        if lacking := _lacking(one, self.model):
            self._loses(one, "rejected", lacking)
            return False
        return True

    def _of_the_architecture(self, fitting: list[Registration[P]]) -> list[Registration[P]]:
        listed = [one for one in fitting if self.model.architecture in one.record.architectures]
        for one in fitting if listed else ():
            if one not in listed:
                self._loses(one, "lower", f"fits the chat template, but is not for {self.model.architecture}")
        return listed or fitting

    def _most_special(self, fitting: list[Registration[P]]) -> list[Registration[P]]:
        kept = []
        for one in fitting:
            special = next((other for other in fitting if set(other.record.template) > set(one.record.template)), None)
            if special is None:
                kept.append(one)
            else:
                self._loses(one, "lower", f"{special.id} is known by the same texts of the chat template and more")
        return kept

    def _without_aliases(self, fitting: list[Registration[P]]) -> list[Registration[P]]:
        """Records with one target are one parser under several names; the first name is used."""
        kept: dict[str, Registration[P]] = {}
        for one in fitting:
            first = kept.setdefault(one.record.target, one)
            if one is not first and one.id != first.id:
                self._loses(one, "lower", f"the same as {first.id}")
        return list(kept.values())

    def _others(self, installed: Sequence[Registration[P]]) -> int:
        named = {line.id for line in self.lines}
        return sum(one.id not in named for one in installed)

    def _loses(self, one: Registration[P], verdict: Verdict, reason: str) -> None:
        self.lines.append(candidate(one, verdict, reason))

    def _why(self, one: Registration[P]) -> str:
        by_template = f"the chat template holds {_texts(one.record.template)}" if one.record.template else ""
        listed = self.model.architecture in one.record.architectures
        by_architecture = f"made for {self.model.architecture}" if listed else ""
        return ", ".join(filter(None, (by_template, by_architecture)))

    def _ambiguous(self, best: list[Registration[P]]) -> str:
        names = " and ".join(f"{one.id!r} ({one.owner})" for one in best)
        flags = " or ".join(f"{FLAGS[self.kind]} {one.id}" for one in best)
        return f"{self.kind.kind}s {names} fit the model equally well. Choose with {flags}"

    def _unusable(self) -> Iterator[Candidate]:
        """Plugins that are known to provide parsers of this kind and could not be used."""
        providers = known_plugins().providers[self.kind.kind]
        for plugin in self.registry.plugins:
            yield from unusable([id for id, owner in providers.items() if owner == plugin.distribution], plugin)

    def _hint(self) -> str:
        """The parsers of the vendor of the architecture, when they are not installed."""
        package = f"{self.model.distribution}-parsers"
        known = package in known_plugins().providers[self.kind.kind].values()
        installed = {plugin.distribution for plugin in self.registry.plugins}
        installed |= {one.distribution for one in self.registry.all(self.kind)}
        return f" (those of the model's family: pip install {package})" if known and package not in installed else ""


def _lacking(one: Registration[P], model: ModelTraits) -> str | None:
    """Why the tokenizer cannot be used with the parser."""
    markers = one.record.markers
    if model.vocabulary is None:
        return "the model has no tokenizer" if markers else None
    missing = [text for text in markers if model.vocabulary.token_id(text) is None]
    return f"the tokenizer has no token {_texts(missing)}, which its format needs" if missing else None


def _texts(texts: Sequence[str]) -> str:
    return " and ".join(map(repr, texts))
