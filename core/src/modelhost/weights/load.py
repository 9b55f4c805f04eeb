"""Matching a checkpoint's tensors to a model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from modelhost.api import WeightError
from modelhost.api.weight import Weight

from .checkpoint import Checkpoint

_MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Where a parameter comes from.

    Attributes:
        tensor: the tensor's name in the checkpoint.
        transform: applied to the weight, such as a permutation of rows; may raise :class:`WeightError`.
        shape: the shape that the parameter must have, after ``transform``.
        fallbacks: names tried in order when ``tensor`` is absent, such as the input embedding for a tied output head.
    """

    tensor: str
    transform: Callable[[Weight], Weight] | None = None
    shape: tuple[int, ...] | None = None
    fallbacks: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that it may have, best first."""
        return (self.tensor, *self.fallbacks)


@dataclass(slots=True)
class _Problems:
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def raise_any(self, checkpoint: Checkpoint) -> None:
        groups = [("missing", self.missing), ("unexpected", self.unexpected), ("wrongly shaped", self.wrong)]
        groups = [(title, lines) for title, lines in groups if lines]
        if not groups:
            return
        counts = ", ".join(f"{len(lines)} {title}" for title, lines in groups)
        text = [f"{checkpoint.path}: the tensors do not fit the model: {counts}."]
        for title, lines in groups:
            text.append(f"{title}:")
            text += [f"  {line}" for line in lines[:_MOST_LISTED]]
            if len(lines) > _MOST_LISTED:
                text.append(f"  and {len(lines) - _MOST_LISTED} more")
        text.append(
            "Check that the configuration and the weights belong together and that the model's plugin is current."
        )
        raise WeightError("\n".join(text))


def verify(checkpoint: Checkpoint, wanted: Mapping[str, Source], ignore: Sequence[str] = ()) -> None:
    """Check that the tensors fit the model, by their names and stored shapes alone.

    A shape that a transform changes is checked when the weight is fetched.

    Args:
        wanted: parameter name to where it comes from.
        ignore: patterns (``fnmatch``) of tensors that the model does not need, such as ``"*.rotary_emb.inv_freq"``.

    Raises:
        WeightError: lists every missing, unexpected and wrongly shaped tensor.
    """
    problems = _Problems()
    problems.unexpected = _unexpected(checkpoint, wanted, ignore)
    for source in wanted.values():
        tensor = _present(checkpoint, source)
        if tensor is None:
            problems.missing.append(_missing(source))
        elif source.transform is None and source.shape not in (None, checkpoint.shape_of(tensor)):
            problems.wrong.append(f"{tensor}: wanted shape {source.shape}, found {checkpoint.shape_of(tensor)}")
    problems.raise_any(checkpoint)


def fetch(checkpoint: Checkpoint, source: Source) -> Weight:
    """One parameter, still encoded, transformed if its source says so.

    Raises:
        WeightError: the tensor is missing or has the wrong shape.
        UnsupportedError: no installed encoding reads the tensor's type.
    """
    problems = _Problems()
    tensor = _present(checkpoint, source)
    if tensor is None:
        problems.missing.append(_missing(source))
    weight = None if tensor is None else _fitting(checkpoint.weight(tensor), source, problems)
    if weight is None:
        problems.raise_any(checkpoint)
        raise WeightError(f"{checkpoint.path}: {source.tensor} could not be read")
    return weight


def _present(checkpoint: Checkpoint, source: Source) -> str | None:
    return next((name for name in source.names if name in checkpoint), None)


def concatenate(weights: Sequence[Weight], name: str) -> Weight:
    """Equally encoded weights stacked along their first dimension, without decoding them.

    Raises:
        WeightError: there are none, or they differ in encoding or in a dimension other than the first.
    """
    if not weights:
        raise WeightError(f"no weights to concatenate into {name!r}")
    first = weights[0]
    for weight in weights:
        if not weight.shape or weight.shape[1:] != first.shape[1:] or weight.encoding != first.encoding:
            raise WeightError(
                f"cannot concatenate into {name!r}: {_described(first)} and {_described(weight)} "
                "differ in encoding or columns"
            )
    rows = sum(weight.shape[0] for weight in weights)
    blocks = np.concatenate([weight.blocks for weight in weights])
    return Weight(name, first.encoding, (rows, *first.shape[1:]), blocks, first.decode)


def _unexpected(checkpoint: Checkpoint, wanted: Mapping[str, Source], ignore: Sequence[str]) -> list[str]:
    known = {name for source in wanted.values() for name in source.names}
    return [
        f"{name} of shape {checkpoint.shape_of(name)}"
        for name in checkpoint.names()
        if name not in known and not any(fnmatchcase(name, pattern) for pattern in ignore)
    ]


def _missing(source: Source) -> str:
    shape = f" of shape {source.shape}" if source.shape is not None else ""
    return " or ".join(source.names) + shape


def _fitting(weight: Weight, source: Source, problems: _Problems) -> Weight | None:
    found = weight.shape
    if source.transform:
        try:
            weight = source.transform(weight)
        except WeightError as error:
            problems.wrong.append(f"{weight.name}: {error}")
            return None
    if source.shape is None or weight.shape == source.shape:
        return weight
    stored = f" (stored as {found})" if found != weight.shape else ""
    problems.wrong.append(f"{weight.name}: wanted shape {source.shape}, found {weight.shape}{stored}")
    return None


def _described(weight: Weight) -> str:
    return f"{weight.name!r} ({weight.encoding} {weight.shape})"
