"""The commands: name, where the function is, and one line of help."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("modelhost.cli.run:run", "Answer a prompt, or chat in the terminal"),
    "plan": ("modelhost.cli.plan:plan", "Show the memory that a model would take, without loading it"),
    "explain": ("modelhost.cli.explain:explain", "Show which plugins would run a model, and how, op by op"),
    "bench": ("modelhost.cli.bench:bench", "Measure how fast a model is on this machine"),
    "tokenize": ("modelhost.cli.tokenize:tokenize", "Show the tokens of a text"),
    "plugins": ("modelhost.cli.plugins:plugins", "List the installed plugins and their state"),
    "plugin": ("modelhost.cli.plugin:plugin", "Begin a plugin package"),
    "doctor": ("modelhost.cli.doctor:doctor", "Check this machine and this installation"),
}
"""Name -> (``"module:function"``, summary)."""

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "plugins install": ("modelhost.cli.plugins_change:install", "Install plugins with pip"),
    "plugins uninstall": ("modelhost.cli.plugins_change:uninstall", "Remove plugins with pip"),
}
"""The same for commands of two words."""

_HELP = """\
Usage: modelhost COMMAND [OPTIONS]

Run language models. Every model family and every backend is a plugin.

Commands:
{commands}

Options:
  --version   Show the version
  -h, --help  Show this text

"modelhost COMMAND --help" lists the options of a command.
"""


def help_text() -> str:
    """What ``modelhost --help`` prints."""
    width = max(map(len, COMMANDS))
    return _HELP.format(commands="\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()))


def unknown_command(name: str) -> str:
    """The error for a command that does not exist, with the closest names."""
    from difflib import get_close_matches

    if name.startswith("-"):
        return f"there is no option {name!r} before the command. See: modelhost --help"
    close = get_close_matches(name.lower(), COMMANDS, 3, 0.6)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"The commands are {', '.join(COMMANDS)}."
    return f"there is no command {name!r}. {hint} See: modelhost --help"
