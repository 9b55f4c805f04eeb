"""How a backend would run a model: its ops, its parameters and its caches. Nothing is loaded to find out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from .loaded import selection_data

if TYPE_CHECKING:
    from modelhost.api.backend import Graph, KernelBackend, Node, Weight
    from modelhost.loading import ModelSource
    from modelhost.plugins import BackendSelection


@dataclass(frozen=True)
class OpUse:
    """How a backend computes an op.

    Attributes:
        op: its name.
        count: how often the optimised graph applies it.
        tier: ``"native"``: the backend has a kernel; ``"decomposed"``: it computes simpler ops; ``"missing"``: neither.
        kernels: for a decomposed op, how often all its applications together use each native op.
    """

    op: str
    count: int
    tier: str
    kernels: dict[str, int] = field(default_factory=dict)


@dataclass
class EncodingUse:
    """The parameters in one encoding.

    Attributes:
        encoding: in the checkpoint.
        tensors: number of parameters, before projections are merged.
        values: in all of them.
        encoded: bytes in the checkpoint.
        resident: bytes once loaded.
        native: whether the backend computes on the encoding as it is.
    """

    encoding: str
    native: bool
    tensors: int = 0
    values: int = 0
    encoded: int = 0
    resident: int = 0


@dataclass(frozen=True)
class CacheGroup:
    """Layers whose caches keep the same tokens."""

    group: str
    layers: int
    window: int | None
    bytes_per_token: int


@dataclass(frozen=True)
class Explanation:
    """What there is to say about a model on a backend."""

    source: ModelSource
    selection: BackendSelection
    graph: Graph
    ops: list[OpUse]
    encodings: list[EncodingUse]
    caches: list[CacheGroup]

    def data(self) -> dict[str, Any]:
        """As plain data; sizes are in bytes."""
        return {
            "model": str(self.source.checkpoint.path),
            "format": self.source.checkpoint.format,
            "architecture": selection_data(self.source.selection),
            "backend": selection_data(self.selection),
            "device": self.selection.device,
            "dtype": self.selection.dtype,
            "ops": [asdict(use) for use in self.ops],
            "parameters": [asdict(use) for use in self.encodings],
            "caches": [asdict(group) for group in self.caches],
        }


def explanation_of(source: ModelSource, selection: BackendSelection, backend: KernelBackend) -> Explanation:
    """Trace and optimise the model for ``backend``. Nothing is loaded.

    Raises:
        WeightError: the tensors do not match the model.
    """
    from modelhost.api.model import trace
    from modelhost.graph.passes import optimize

    weights = source.weights()
    traced = trace(source.model, backend.dtype)
    graph = optimize(traced, native=lambda _: True, encoding_of=source.encoding_of, backend=backend.name)
    return Explanation(
        source,
        selection,
        graph,
        list(_op_uses(graph, backend)),
        _encoding_uses(weights, selection, graph, backend),
        list(_cache_groups(graph, backend)),
    )


def _op_uses(graph: Graph, backend: KernelBackend) -> Iterator[OpUse]:
    for name, count in Counter(node.op.name for node in graph.nodes).most_common():
        nodes = [node for node in graph.nodes if node.op.name == name]
        if backend.native(nodes[0].op):
            yield OpUse(name, count, "native")
            continue
        kernels = _kernels(nodes, graph, backend)
        yield OpUse(name, count, "missing" if kernels is None else "decomposed", kernels or {})


def _kernels(nodes: list[Node], graph: Graph, backend: KernelBackend) -> dict[str, int] | None:
    """The native ops that ``nodes`` become; ``None`` when there is no way."""
    from modelhost.api import UnsupportedError
    from modelhost.graph.passes import lower

    try:
        lowered = lower(graph.with_nodes(nodes), native=backend.native, backend=backend.name)
    except UnsupportedError:
        return None
    return dict(Counter(node.op.name for node in lowered.nodes))


def _encoding_uses(
    weights: Mapping[str, Weight], selection: BackendSelection, graph: Graph, backend: KernelBackend
) -> list[EncodingUse]:
    uses: dict[str, EncodingUse] = {}
    for parameter in graph.parameters.values():
        parts = [weights[part.name] for part in parameter.parts or (parameter,)]
        encoding, encoded = parts[0].encoding, sum(part.nbytes for part in parts)
        native = encoding in selection.chosen.record.encodings
        use = uses.setdefault(encoding, EncodingUse(encoding, native))
        use.tensors += len(parts)
        use.values += sum(prod(part.shape) for part in parts)
        use.encoded += encoded
        use.resident += backend.resident_bytes(parameter, encoding, encoded)
    return sorted(uses.values(), key=lambda use: -use.encoded)


def _cache_groups(graph: Graph, backend: KernelBackend) -> Iterator[CacheGroup]:
    from modelhost.engine.kv_cache import kv_groups

    specs = [state.spec for state in graph.states.values()]
    layers = Counter(spec.group for spec in specs)
    for group in kv_groups(specs, backend.dtype):
        yield CacheGroup(group.name, layers[group.name], group.window, group.bytes_per_token or group.bytes_per_slot)
