"""Models as plain objects: a module holds parameters, states and other modules as attributes."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.graph.tensor import Parameter, State

__all__ = ["Module"]


class Module:
    """A part of a model.

    A parameter's name is the path of attributes that leads to it, such as ``model.layers.0.mlp.up_proj.weight``.
    Families name their attributes as the Hugging Face checkpoint does, so most need no map of names.
    Attributes that start with an underscore are not walked.
    """

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its name, each once, in order of definition."""
        seen: set[Parameter] = set()
        for name, leaf in self._leaves(prefix):
            if isinstance(leaf, Parameter) and leaf not in seen:
                seen.add(leaf)
                yield name, leaf

    def named_states(self, prefix: str = "") -> Iterator[tuple[str, State]]:
        """Every state with its name, in order of definition."""
        return ((name, leaf) for name, leaf in self._leaves(prefix) if isinstance(leaf, State))

    def assign_names(self) -> None:
        """Give every parameter and state the name of its path."""
        for name, parameter in self.named_parameters():
            parameter.name = name
        for name, state in self.named_states():
            state.name = name

    def _leaves(self, prefix: str) -> Iterator[tuple[str, Parameter | State]]:
        for name, value in vars(self).items():
            if not name.startswith("_"):
                yield from _walk(f"{prefix}{name}", value)


def _walk(name: str, value: object) -> Iterator[tuple[str, Parameter | State]]:
    if isinstance(value, Parameter | State):
        yield name, value
    elif isinstance(value, Module):
        yield from value._leaves(f"{name}.")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(f"{name}.{index}", item)
