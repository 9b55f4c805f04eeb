"""A traced model: a flat list of nodes in execution order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .tensor import Parameter, State, Tensor

if TYPE_CHECKING:
    from .operation import Operation

Operand = Tensor | State | None


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One application of an op.

    Attributes:
        op: the schema.
        operands: tensors and states in the order of the schema's positional parameters; ``None`` where left out.
        attributes: keyword arguments, all of them plain hashable values.
        outputs: the tensors that it makes.
    """

    op: Operation[..., Any]
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[Tensor, ...]

    @property
    def tensors(self) -> Iterator[Tensor]:
        """The tensors among the operands."""
        return (operand for operand in self.operands if isinstance(operand, Tensor))

    @property
    def states(self) -> Iterator[State]:
        """The states among the operands."""
        return (operand for operand in self.operands if isinstance(operand, State))

    def replace(self, substitute: Callable[[Tensor], Tensor]) -> Node:
        """The same node with its tensor operands passed through ``substitute``."""
        operands = tuple(substitute(o) if isinstance(o, Tensor) else o for o in self.operands)
        return Node(self.op, operands, self.attributes, self.outputs)

    def describe(self, labels: Mapping[Tensor, str]) -> str:
        """One line of text, with its tensors called as in ``labels``."""
        operands = ["-" if o is None else o.name if isinstance(o, State) else labels[o] for o in self.operands]
        attributes = [f"{key}={_short(value)}" for key, value in self.attributes.items()]
        outputs = ", ".join(f"{labels[t]}: {t.like()!r}" for t in self.outputs)
        return f"{outputs or '()'} = {self.op.name}({', '.join(operands + attributes)})"

    def __str__(self) -> str:
        return self.describe(_labels((*self.tensors, *self.outputs)))


def _labels(tensors: Iterable[Tensor]) -> dict[Tensor, str]:
    """What to call each tensor: its name, with the shape for a parameter, or else a number."""
    labels: dict[Tensor, str] = {}
    unnamed = 0
    for tensor in tensors:
        if tensor in labels:
            continue
        label = tensor.name
        if not label:
            label, unnamed = f"%{unnamed}", unnamed + 1
        labels[tensor] = f"{label}[{', '.join(map(str, tensor.shape))}]" if isinstance(tensor, Parameter) else label
    return labels


def _short(value: Any, limit: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


@dataclass(slots=True)
class Graph:
    """A traced forward function.

    Attributes:
        name: which function of the model it is, such as ``"forward"``.
        inputs: tensors that the engine provides at each step, by name.
        nodes: the computation in execution order. Nodes that touch one state keep their order.
        outputs: named results.
    """

    name: str
    inputs: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that nodes use, by name, in order of first use."""
        return {t.name: t for node in self.nodes for t in node.tensors if isinstance(t, Parameter)}

    @property
    def states(self) -> dict[str, State]:
        """The states that nodes use, by name, in order of first use."""
        return {s.name: s for node in self.nodes for s in node.states}

    def uses(self) -> dict[Tensor, int]:
        """How often each tensor is an operand or an output of the graph."""
        counts: dict[Tensor, int] = {}
        for node in self.nodes:
            for tensor in node.tensors:
                counts[tensor] = counts.get(tensor, 0) + 1
        for tensor in self.outputs.values():
            counts[tensor] = counts.get(tensor, 0) + 1
        return counts

    def with_nodes(self, nodes: list[Node], substitute: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Graph:
        """A graph of other nodes with the same inputs and the outputs passed through ``substitute``."""
        outputs = {name: substitute(tensor) for name, tensor in self.outputs.items()}
        return Graph(self.name, dict(self.inputs), nodes, outputs)

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.inputs.values()
        for node in self.nodes:
            yield from node.tensors
            yield from node.outputs
        yield from self.outputs.values()

    def __str__(self) -> str:
        labels = _labels(self._tensors())
        lines = [f"graph {self.name}"]
        lines += [f"  input {tensor!r}" for tensor in self.inputs.values()]
        lines += [f"  state {state!r}" for state in self.states.values()]
        lines += [f"  {node.describe(labels)}" for node in self.nodes]
        lines.append("  return " + ", ".join(f"{name}={labels[tensor]}" for name, tensor in self.outputs.items()))
        return "\n".join(lines)
