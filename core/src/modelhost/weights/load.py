"""Matching a checkpoint's tensors to a model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

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
        shape: the shape that the parameter must have, after ``transform``; the checkpoint's may have further
            dimensions of one.
        fallbacks: names tried in order when ``tensor`` is absent, such as the input embedding for a tied output head.
        stack: names of the tensors that are stacked along a new first dimension, instead of ``tensor``.
        join: makes the weight of those in ``stack`` instead of stacking them; its values are float32.
    """

    tensor: str
    transform: Callable[[Weight], Weight] | None = None
    shape: tuple[int, ...] | None = None
    fallbacks: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    join: Callable[[Sequence[Weight]], Weight] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All tensors that it may be made of."""
        return self.stack or (self.tensor, *self.fallbacks)

    def found(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """The tensors that it is made of here; empty when it cannot be made."""
        if self.stack:
            return self.stack if all(name in checkpoint for name in self.stack) else ()
        return next(((name,) for name in self.names if name in checkpoint), ())

    def missing(self, checkpoint: Checkpoint) -> list[str]:
        """What is missing, with shapes."""
        if self.stack:
            shape = f" of shape {self.shape[1:]}" if self.shape is not None and self.join is None else ""
            return [name + shape for name in self.stack if name not in checkpoint]
        shape = f" of shape {self.shape}" if self.shape is not None else ""
        return [] if self.found(checkpoint) else [" or ".join(self.names) + shape]


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
        problems.missing += source.missing(checkpoint)
        if source.transform is None and source.join is None and source.shape is not None:
            wanted_shape = source.shape[1:] if source.stack else source.shape
            for tensor in source.found(checkpoint):
                if not _same_values(checkpoint.shape_of(tensor), wanted_shape):
                    problems.wrong.append(f"{tensor}: wanted shape {wanted_shape}, found {checkpoint.shape_of(tensor)}")
    problems.raise_any(checkpoint)


def fetch(checkpoint: Checkpoint, source: Source) -> Weight:
    """One parameter, still encoded, transformed if its source says so.

    Raises:
        WeightError: the tensor is missing or has the wrong shape.
        UnsupportedError: no installed encoding reads the tensor's type.
    """
    problems = _Problems()
    problems.missing = source.missing(checkpoint)
    problems.raise_any(checkpoint)
    weights = [checkpoint.weight(tensor) for tensor in source.found(checkpoint)]
    weight = _fitting(_made(weights, source), source, problems)
    problems.raise_any(checkpoint)
    if weight is None:
        raise WeightError(f"{checkpoint.path}: {source.tensor} could not be read")
    if source.transform or source.join:
        _release_copied(weights, weight)
    return weight


def _release_copied(tensors: Sequence[Weight], weight: Weight) -> None:
    """Release the pages of ``tensors`` that ``weight`` was made of, unless it refers to them itself."""
    from numpy import may_share_memory

    kept = [piece.blocks for piece in weight.pieces()]
    for tensor in tensors:
        if not any(may_share_memory(tensor.blocks, blocks) for blocks in kept):
            tensor.release()


def _made(weights: Sequence[Weight], source: Source) -> Weight:
    """One weight of those that a source names."""
    if source.join is not None:
        return source.join(weights)
    return _stacked(weights, source.tensor) if source.stack else weights[0]


def encoded_size(checkpoint: Checkpoint, source: Source) -> int:
    """Bytes of a parameter in the checkpoint: its share of the tensors that it is made of, by shape."""
    from math import prod

    if source.join is not None and source.shape is not None:
        return 4 * prod(source.shape)
    tensors = source.found(checkpoint)
    stored = sum(checkpoint.weight(tensor).nbytes for tensor in tensors)
    values = sum(prod(checkpoint.shape_of(tensor)) for tensor in tensors)
    return stored if source.shape is None or not values else stored * prod(source.shape) // values


def _stacked(weights: Sequence[Weight], name: str) -> Weight:
    """Equally encoded weights of one shape along a new first dimension, not copied."""
    first = weights[0]
    for weight in weights:
        if weight.shape != first.shape or weight.encoding != first.encoding:
            raise WeightError(
                f"cannot stack into {name!r}: {_described(first)} and {_described(weight)} differ in encoding or shape"
            )
    layers = tuple(replace(weight, shape=(1, *weight.shape), blocks=weight.blocks[None]) for weight in weights)
    return Weight(name, first.encoding, (len(weights), *first.shape), layers, first.decode)


def concatenate(weights: Sequence[Weight], name: str) -> Weight:
    """Equally encoded weights stacked along their first dimension, without decoding or copying them.

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
    return Weight(name, first.encoding, (rows, *first.shape[1:]), tuple(weights), first.decode)


def _unexpected(checkpoint: Checkpoint, wanted: Mapping[str, Source], ignore: Sequence[str]) -> list[str]:
    known = {name for source in wanted.values() for name in source.names}
    return [
        f"{name} of shape {checkpoint.shape_of(name)}"
        for name in checkpoint.names()
        if name not in known and not any(fnmatchcase(name, pattern) for pattern in ignore)
    ]


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
    if _same_values(weight.shape, source.shape):
        return replace(weight, shape=source.shape, blocks=weight.blocks.reshape(*source.shape[:-1], -1))
    stored = f" (stored as {found})" if found != weight.shape else ""
    problems.wrong.append(f"{weight.name}: wanted shape {source.shape}, found {weight.shape}{stored}")
    return None


def _same_values(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether the shapes differ in dimensions of one at most."""
    return [size for size in found if size != 1] == [size for size in wanted if size != 1]


def _described(weight: Weight) -> str:
    return f"{weight.name!r} ({weight.encoding} {weight.shape})"
