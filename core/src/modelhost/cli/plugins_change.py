"""``modelhost plugins install`` and ``modelhost plugins uninstall``. Neither imports a plugin before pip is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from .loaded import boot_plugins
from .options import JsonFlag
from .terminal import print_json, print_line, spinner

if TYPE_CHECKING:
    from modelhost.plugins.packages import Change

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Short names, distributions, directories or archives", show_default=False),
]
InstalledArgument = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Short names or distributions", show_default=False)
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing")]
UpgradeFlag = Annotated[bool, typer.Option("--upgrade", "-U", help="Take the newest versions that fit")]
EditableOption = Annotated[
    list[str] | None,
    typer.Option("--editable", "-e", metavar="DIR", help="Install this directory in editable mode; repeatable"),
]


def install(
    names: NamesArgument = None,
    editable: EditableOption = None,
    upgrade: UpgradeFlag = False,
    dry_run: DryRunFlag = False,
    json: JsonFlag = False,
) -> int:
    """Install plugins with pip, in the environment that modelhost is in, at versions that go with this release.

    A name is short, such as llama, or that of an architecture or a parser, a distribution, a directory or an archive.
    Options of pip can be given in its environment variables, such as PIP_INDEX_URL.
    The exit code is 1 when nothing was installed, or when what was installed cannot be used.
    """
    from modelhost.api import PluginError
    from modelhost.plugins.packages import Pip, refusal, requirement

    if not names and not editable:
        raise typer.BadParameter("give the name of a plugin, or --editable DIR")
    requirements = [requirement(name) for name in names or ()]
    pip = Pip(upgrade, tuple(editable or ()))
    with spinner("Finding out what would change"):
        report = pip.resolve(requirements)
    if reason := refusal(report.changes):
        raise PluginError(reason)
    if not dry_run and report.changes:
        with spinner("Installing"):
            pip.install(requirements, report)
    return _report(report.changes, dry_run=dry_run, json=json)


def uninstall(names: InstalledArgument, dry_run: DryRunFlag = False, json: JsonFlag = False) -> int:
    """Remove plugins with pip. What they needed is left installed. The exit code is 1 when nothing was removed."""
    from modelhost.plugins.packages import Pip, installed_plugin

    found = {one.distribution: one.version for one in map(installed_plugin, names)}
    if not dry_run:
        Pip().uninstall(list(found))
    if json:
        print_json({"dry_run": dry_run, "removed": [{"name": name, "version": found[name]} for name in found]})
        return 0
    for name, version in found.items():
        print_line(f"{'would remove' if dry_run else 'removed'} {name} {version}")
    return 0


def _report(changes: tuple[Change, ...], *, dry_run: bool, json: bool) -> int:
    plugins = [] if dry_run else _states({change.name for change in changes})
    if json:
        listed = [
            {"name": one.name, "version": one.version, "installed": one.installed, "change": one.verb}
            for one in changes
        ]
        print_json({"dry_run": dry_run, "changes": listed, "plugins": [plugin for plugin, _, _ in plugins]})
    else:
        for change in changes:
            print_line(f"would {change}" if dry_run else f"done: {change}")
        if not changes:
            print_line("nothing to do: all of it is installed")
        for _, line, _ in plugins:
            print_line(line)
    return 0 if all(usable for _, _, usable in plugins) else 1


def _states(distributions: set[str]) -> list[tuple[dict[str, object], str, bool]]:
    """As data, as a line, and whether it is usable: each plugin that was installed."""
    from dataclasses import asdict
    from importlib import invalidate_caches

    invalidate_caches()
    return [
        (asdict(plugin), f"{plugin.distribution}: {plugin.error or _provides(plugin.ids)}", plugin.state == "ok")
        for plugin in boot_plugins().plugins
        if plugin.distribution in distributions
    ]


def _provides(ids: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in ids.items()) or "provides nothing"
