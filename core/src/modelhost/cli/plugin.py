"""``modelhost plugin new``: begin a plugin package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .terminal import print_line

Kind = Literal["model", "backend", "parser", "speculator"]
Directory = Annotated[
    Path, typer.Option("--directory", metavar="DIR", help="Where to make the package's directory", file_okay=False)
]


def plugin(
    action: Annotated[Literal["new"], typer.Argument(help="What to do", show_default=False)],
    kind: Annotated[Kind, typer.Argument(help="What the plugin provides", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as tiny-llama", show_default=False)],
    directory: Directory = Path("."),
) -> int:
    """Make a new plugin package, modelhost-NAME, whose tests pass as it is.

    It has the plugin module, an implementation to change, conformance tests, a workflow that runs them, and a README.
    """
    from modelhost.scaffold import PluginName, write_plugin

    names = PluginName.parse(kind, name)
    files = write_plugin(names, directory)
    root = directory / names.distribution
    for file in files:
        print_line(str(file))
    print_line(f'\nNext:\n  cd {root}\n  python -m pip install -e ".[test]"\n  python -m pytest')
    return 0
