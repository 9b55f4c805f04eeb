"""From a command's function to a process exit code: option parsing by typer, and what becomes of errors."""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, get_type_hints

import typer
from typer.main import get_command

from modelhost.api import ModelHostError

CommandFunction = Callable[..., int]
"""A command. Its parameters are its options; one annotated with a dataclass stands for all fields of that class."""


def invoke(name: str, target: str, arguments: Sequence[str]) -> int:
    """Parse ``arguments``, run the command and return its exit code.

    Args:
        target: ``"module:function"`` of the command.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    module, _, attribute = target.partition(":")
    function: CommandFunction = getattr(import_module(module), attribute)
    app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    results: list[int | BaseException] = []
    app.command(name)(_recorded(flattened(function), results))
    try:
        get_command(app).main(list(arguments), prog_name=f"modelhost {name}")
    except SystemExit as exit:
        if not results:
            return exit.code if isinstance(exit.code, int) else 0
    return exit_code(results[0])


def _recorded(function: CommandFunction, results: list[int | BaseException]) -> Callable[..., None]:
    """Keeps the outcome away from typer, which has its own ideas of interrupts and broken pipes."""

    @functools.wraps(function)
    def wrapper(**values: Any) -> None:
        try:
            results.append(function(**values))
        except typer.BadParameter:
            raise
        except BaseException as error:
            results.append(error)

    return wrapper


def exit_code(result: int | BaseException) -> int:
    """The exit code of a command that returned or raised ``result``; reports a :class:`ModelHostError`.

    Raises:
        BaseException: ``result`` itself, when it is an error that modelhost did not raise on purpose.
    """
    if isinstance(result, int):
        return result
    if not isinstance(result, ModelHostError):
        raise result
    if os.environ.get("MODELHOST_DEBUG", "0") not in {"", "0"}:
        import traceback

        traceback.print_exception(result)
    sys.stdout.flush()
    sys.stderr.write(f"error: {result}\n")
    return 1


def flattened(function: CommandFunction) -> CommandFunction:
    """``function`` with each parameter that is annotated with a dataclass replaced by the fields of that class."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @functools.wraps(function)
    def wrapper(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return function(**values)

    parameters = list(_parameters(function, hints))
    del wrapper.__wrapped__
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__doc__ = _unwrapped(function.__doc__ or "")
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _unwrapped(text: str) -> str:
    """``text`` with each paragraph in one line, for a terminal of any width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _parameters(function: CommandFunction, hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for name, parameter in inspect.signature(function).parameters.items():
        if not is_dataclass(hints[name]):
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            continue
        group_hints = get_type_hints(hints[name], include_extras=True)
        for field in fields(hints[name]):
            annotation = group_hints[field.name]
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation
            )
