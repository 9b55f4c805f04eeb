"""The entry point: version, help, unknown commands, and what they import."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from importlib.metadata import version

import pytest

from modelhost.cli.commands import COMMANDS

from .conftest import Cli, command, environment, run_process

HEAVY = ("typer", "rich", "numpy", "pydantic", "torch", "transformers", "pluggy", "tokenizers", "gguf", "numba")
LIMIT_MS = 150


def test_version(cli: Cli) -> None:
    result = cli("--version")
    assert (result.code, result.out, result.err) == (0, f"modelhost {version('modelhost')}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command(cli: Cli, option: str) -> None:
    result = cli(option)
    assert (result.code, result.err) == (0, "")
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name:<8}  {summary}\n" in result.out


def test_no_command_is_wrong_usage(cli: Cli) -> None:
    result = cli()
    assert (result.code, result.out) == (2, "")
    assert result.err == cli("--help").out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rnu", "there is no command 'rnu'. Did you mean run? See: modelhost --help"),
        ("Plugin", "there is no command 'Plugin'. Did you mean plugin or plugins or explain? See: modelhost --help"),
        (
            "xyzzy",
            "there is no command 'xyzzy'. The commands are run, plan, explain, bench, tokenize, plugins, plugin, "
            "doctor. See: modelhost --help",
        ),
        (
            "--no-plugins",
            "there is no option '--no-plugins' before the command. See: modelhost --help",
        ),
    ],
)
def test_unknown_command(cli: Cli, word: str, message: str) -> None:
    result = cli(word)
    assert (result.code, result.out, result.err) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli: Cli, name: str) -> None:
    result = cli(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: modelhost {name} [OPTIONS]" in result.out


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy(option: str) -> None:
    code = (
        "import json, sys; from modelhost.cli.main import main; code = main([sys.argv[1]]); "
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
    exit_code, modules = json.loads(done.stdout.splitlines()[-1])
    assert exit_code == 0
    assert not set(HEAVY) & set(modules)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_are_quick(option: str) -> None:
    """Processor time, the best of several: what others do on the machine at the same time does not count."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(5):
        before = spent()
        subprocess.run(command(option), check=True, capture_output=True, env=environment())
        times.append((spent() - before) * 1000)
    assert min(times) < LIMIT_MS


def test_exit_code_of_the_script() -> None:
    assert run_process("rnu").code == 2
    assert run_process("--version").code == 0


def test_help_does_not_import_the_engine() -> None:
    code = (
        "import sys; from modelhost.cli.main import main; main(['run', '--help']); "
        "sys.exit(bool({'numpy', 'tokenizers', 'torch', 'jinja2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
