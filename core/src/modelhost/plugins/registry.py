"""All records of one boot, and the rules for several that claim the same id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from modelhost.api import HOOKS, PluginError, Record

from .diagnosis import closest
from .info import CORE, PluginInfo, Registration, normalize
from .settings import HostSettings
from .unknown import unknown

if TYPE_CHECKING:
    from .cache import CacheUse

R = TypeVar("R", bound=Record)
Claims = dict[str, dict[str, tuple[Registration[Any], ...]]]
KINDS = tuple(record.kind for record in HOOKS.values())


class Registry:
    """The plugins that :func:`modelhost.plugins.boot` found and the records of the usable ones.

    ``kind`` is a record class or its ``kind`` text: ``Backend`` or ``"backend"``.

    Attributes:
        plugins: one info for each entry point, whatever its state.
        settings: the user's choices.
        warnings: sentences about choices that had no effect, such as a misspelt plugin name.
        cache: how the cache of declarations was used; ``None`` without one.
    """

    def __init__(
        self,
        plugins: Iterable[PluginInfo] = (),
        registrations: Iterable[Registration[Any]] = (),
        settings: HostSettings | None = None,
        warnings: Iterable[str] = (),
        cache: CacheUse | None = None,
    ) -> None:
        registrations = tuple(registrations)
        self.settings = settings or HostSettings()
        self.cache = cache
        self._claims, replaced = _resolve(registrations, {_reference(text) for text in self.settings.replace})
        notes = [*_replacement_notes(replaced), *_duplicate_notes(self._claims)]
        self.plugins = tuple(_annotated(plugin, notes) for plugin in plugins)
        unused = [text for text in self.settings.replace if _reference(text) not in {_key(old) for old, _ in replaced}]
        self.warnings = (
            *warnings,
            *(f"{self.settings.source('replace')}: no plugin in use replaces {text!r}" for text in unused),
        )

    @overload
    def claims(self, kind: type[R]) -> Mapping[str, tuple[Registration[R], ...]]: ...
    @overload
    def claims(self, kind: str) -> Mapping[str, tuple[Registration[Any], ...]]: ...
    def claims(self, kind: str | type[Record]) -> Mapping[str, tuple[Registration[Any], ...]]:
        """Every id of ``kind`` with all registrations that claim it; more than one is a duplicate."""
        name = kind if isinstance(kind, str) else kind.kind
        if name not in KINDS:
            raise ValueError(f"there is no kind of record {name!r}; the kinds are {', '.join(KINDS)}")
        return self._claims.get(name, {})

    def all(self, kind: type[R]) -> list[Registration[R]]:
        """Every registration of ``kind`` that is not replaced, each once, duplicates included."""
        unique = {id(claim): claim for claims in self.claims(kind).values() for claim in claims}
        return list(unique.values())

    @overload
    def of(self, kind: type[R]) -> dict[str, Registration[R]]: ...
    @overload
    def of(self, kind: str) -> dict[str, Registration[Any]]: ...
    def of(self, kind: str | type[Record]) -> dict[str, Registration[Any]]:
        """The registrations of ``kind`` by id. Ids that are declared more than once are left out."""
        return {id: claims[0] for id, claims in self.claims(kind).items() if len(claims) == 1}

    @overload
    def find(self, kind: type[R], id: str) -> Registration[R]: ...
    @overload
    def find(self, kind: str, id: str) -> Registration[Any]: ...
    def find(self, kind: str | type[Record], id: str) -> Registration[Any]:
        """The registration of ``id``.

        Raises:
            PluginError: no usable plugin provides it (the text says which package does, and the three closest ids), or
                several do.
        """
        claims = self.claims(kind)
        found = claims.get(id, ())
        if not found:
            name = kind if isinstance(kind, str) else kind.kind
            raise unknown(name, id, {known: claim[0].distribution for known, claim in claims.items()}, self.plugins)
        return only(found, id)


def only(claims: tuple[Registration[R], ...], id: str) -> Registration[R]:
    """The one registration of ``id``.

    Raises:
        PluginError: there are several; the text names them and the ways out.
    """
    if len(claims) == 1:
        return claims[0]
    owners = " and ".join(f"{claim.owner} ({claim.file})" for claim in claims)
    distributions = dict.fromkeys(claim.distribution for claim in claims if claim.distribution != CORE)
    lines = [
        f"{claims[0].kind} {id!r} is declared by {owners}.",
        "Uninstall one: " + ", or ".join(f"pip uninstall {distribution}" for distribution in distributions),
    ]
    keys = {_key(claim) for claim in claims}
    for claim in claims:
        if claim.record.replaces and _reference(claim.record.replaces) in keys:
            text = claim.record.replaces
            lines.append(
                f'Or let {claim.distribution} replace {text}: add replace = ["{text}"] to [plugins] in modelhost.toml, '
                f"or set MODELHOST_REPLACE={text}"
            )
    raise PluginError("\n".join(lines))


def _reference(text: str) -> tuple[str, str]:
    distribution, _, id = text.partition(":")
    return normalize(distribution), id


def _key(registration: Registration[Any]) -> tuple[str, str]:
    return registration.distribution, registration.id


def _resolve(
    registrations: tuple[Registration[Any], ...], opted_in: set[tuple[str, str]]
) -> tuple[Claims, list[tuple[Registration[Any], Registration[Any]]]]:
    """The claims to each id after the replacements that the user allowed, and those replacements as (old, new)."""
    replaced = [
        (old, new)
        for new in registrations
        if new.record.replaces is not None and _reference(new.record.replaces) in opted_in
        for old in registrations
        if old is not new and old.kind == new.kind and _key(old) == _reference(new.record.replaces)
    ]
    dropped = [old for old, _ in replaced]
    claims: Claims = {}
    for registration in registrations:
        if not any(registration is old for old in dropped):
            _claim(claims, registration.id, registration)
    for old, new in replaced:
        _claim(claims, old.id, new)
    return claims, replaced


def _claim(claims: Claims, id: str, registration: Registration[Any]) -> None:
    by_id = claims.setdefault(registration.kind, {})
    if all(registration is not other for other in by_id.get(id, ())):
        by_id[id] = (*by_id.get(id, ()), registration)


_Note = tuple[Registration[Any], str]


def _replacement_notes(replaced: list[tuple[Registration[Any], Registration[Any]]]) -> Iterable[_Note]:
    for old, new in replaced:
        yield old, f"replaced: {old.kind} {old.id!r} by that of {new.owner}"
        yield new, f"replaces: {old.kind} {old.id!r} of {old.owner}"


def _duplicate_notes(claims: Claims) -> Iterable[_Note]:
    for kind, by_id in claims.items():
        for id, registrations in by_id.items():
            for registration in registrations:
                others = [other.owner for other in registrations if other is not registration]
                if others:
                    yield registration, f"duplicate: {kind} {id!r} is also declared by {', '.join(others)}"


def _annotated(plugin: PluginInfo, notes: list[_Note]) -> PluginInfo:
    own = tuple(
        text
        for registration, text in notes
        if (registration.distribution, registration.entry_point) == (plugin.distribution, plugin.entry_point)
        and plugin.state == "ok"
    )
    return replace(plugin, notes=own) if own else plugin


def suggest(name: str, plugins: Iterable[PluginInfo]) -> str:
    """The plugin name closest to ``name``, as a question, or nothing when no plugin is installed."""
    best = closest(name, {known for plugin in plugins for known in (plugin.entry_point, plugin.distribution)}, 1)
    return f"; did you mean {best[0]!r}?" if best else ""
