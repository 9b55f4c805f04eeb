"""Ops and tracing. An op is one function: its parameters are the schema, its body the shape rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

from modelhost.api.errors import GraphError

from .graph import Graph, Node, Operand
from .tensor import State, Tensor

P = ParamSpec("P")
R = TypeVar("R", bound="Tensor | tuple[Tensor, ...] | None")

_current: ContextVar[Graph | None] = ContextVar("modelhost_current_graph", default=None)


@contextmanager
def tracing(graph: Graph) -> Iterator[Graph]:
    """Within this context, applying an op appends a node to ``graph``."""
    token = _current.set(graph)
    try:
        yield graph
    finally:
        _current.reset(token)


def current_graph() -> Graph:
    """The graph being traced.

    Raises:
        GraphError: no trace is under way.
    """
    graph = _current.get()
    if graph is None:
        raise GraphError("ops can be applied only while a model is traced; call them from a forward function")
    return graph


def as_outputs(result: Tensor | tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
    """What a rule or a decomposition returned, as a tuple."""
    return (result,) if isinstance(result, Tensor) else result or ()


def require(condition: bool, text: str) -> None:
    """In a shape rule: raise a :class:`GraphError` with ``text`` unless ``condition`` holds."""
    if not condition:
        raise GraphError(text)


class Operation(Generic[P, R]):
    """The schema of one op.

    Positional parameters are operands (:class:`Tensor`, :class:`State` or ``None``), keyword-only ones attributes.
    Calling it while a model is traced checks the operands, appends a node and returns the outputs.

    Attributes:
        name: unique name.
        rule: checks shapes and dtypes and returns fresh output tensors.
        effect: the op writes to a state, so it is never removed or reordered.
        view: the output shares memory with the first operand.
        decompose: the same computation in simpler ops, or ``None``.
    """

    def __init__(self, rule: Callable[P, R], *, effect: bool = False, view: bool = False) -> None:
        self.name = rule.__name__
        self.rule = rule
        self.effect = effect
        self.view = view
        self.decompose: Callable[P, R] | None = None
        self.__doc__ = rule.__doc__
        self.__name__ = rule.__name__
        self.signature = inspect.signature(rule)
        kinds = {name: parameter.kind for name, parameter in self.signature.parameters.items()}
        self.operand_names = tuple(n for n, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY)
        self._kinds = {name: _operand_kind(self.signature.parameters[name]) for name in self.operand_names}
        self.attribute_names = tuple(n for n, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY)

    def decomposition(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorator: ``function`` computes this op from simpler ones."""
        self.decompose = function
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        graph = current_graph()
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise GraphError(f"{self._usage()}: {error}") from None
        bound.apply_defaults()
        operands = tuple(bound.arguments[name] for name in self.operand_names)
        attributes = {name: bound.arguments[name] for name in self.attribute_names}
        self._check_kinds(operands, attributes)
        try:
            result = self.rule(*args, **kwargs)
        except GraphError as error:
            raise GraphError(f"{self.name}: {error}; operands: {self._describe(operands)}") from None
        outputs = as_outputs(result)
        graph.nodes.append(Node(self, operands, attributes, outputs))
        return result

    def _check_kinds(self, operands: tuple[Operand, ...], attributes: dict[str, Any]) -> None:
        for name, operand in zip(self.operand_names, operands, strict=True):
            wanted, optional = self._kinds[name]
            if not (isinstance(operand, wanted) or (optional and operand is None)):
                found = repr(operand) if isinstance(operand, Tensor | State) else type(operand).__name__
                raise GraphError(f"{self.name}: operand {name!r} must be a {wanted.__name__.lower()}, got {found}")
        for name, value in attributes.items():
            try:
                hash(value)
            except TypeError:
                raise GraphError(f"{self.name}: attribute {name!r} must be a hashable value, got {value!r}") from None

    def _usage(self) -> str:
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in self.signature.parameters.values()]
        return f"{self.name}{inspect.Signature(bare)}"

    def _describe(self, operands: tuple[Operand, ...]) -> str:
        pairs = zip(self.operand_names, operands, strict=True)
        return ", ".join(f"{name} = {operand!r}" for name, operand in pairs if operand is not None)

    def __repr__(self) -> str:
        return f"<op {self._usage()}>"


def _operand_kind(parameter: inspect.Parameter) -> tuple[type[Tensor | State], bool]:
    """The class that a rule's parameter is annotated with, and whether it may be left out."""
    names = [name.strip() for name in str(parameter.annotation).split("|")]
    return State if "State" in names else Tensor, "None" in names


def operation(*, effect: bool = False, view: bool = False) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Decorator: makes an :class:`Operation` of a shape rule."""

    def decorate(rule: Callable[P, R]) -> Operation[P, R]:
        return Operation(rule, effect=effect, view=view)

    return decorate
