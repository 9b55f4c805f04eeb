"""``--threads`` and ``--deterministic``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli, install, run_process

COMMANDS = ("run", "plan", "explain")
COUNTING = """
from pydantic import BaseModel

from modelhost.api import Backend, hookimpl
from modelhost.reference import ReferenceBackend

API = (1, 0)


class Settings(BaseModel):
    threads: int = 1


class Counting(ReferenceBackend):
    def __init__(self, *, device, dtype, settings):
        super().__init__(device=device, dtype=dtype)
        self.threads = settings.threads

    def resident_bytes(self, parameter, encoding, encoded_bytes):
        return self.threads << 10


@hookimpl
def modelhost_backends():
    yield Backend("counting", target="counting_backend:Counting", settings="counting_backend:Settings")
"""


def prompt(command: str) -> tuple[str, ...]:
    return ("hello",) if command == "run" else ()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_loads_a_model_takes_them(cli: Cli, tiny: str, command: str) -> None:
    options = (command, tiny, *prompt(command), "--backend", "reference")
    assert cli(*options, "--deterministic").code == 0
    result = cli(*options, "--threads", "2")
    assert (result.code, result.out) == (1, "")
    assert result.err == ("error: backend 'reference' takes no --threads; leave that out or choose another backend\n")


def test_a_number_of_threads_that_is_none(cli: Cli, tiny: str) -> None:
    result = cli("plan", tiny, "--threads", "0")
    assert result.code == 2
    assert "--threads" in result.err


def test_the_backend_gets_the_option_or_else_what_the_file_states(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "counting-backend", "counting_backend", COUNTING)
    (tmp_path / "modelhost.toml").write_text("[plugin.counting]\nthreads = 4\n")
    monkeypatch.chdir(tmp_path)
    env = {"PYTHONPATH": str(tmp_path)}
    resident = []
    for options in (("--threads", "7"), ("-t", "5"), ()):
        result = run_process("plan", tiny, "--backend", "counting", "--json", *options, env=env)
        assert result.code == 0, result.err
        resident.append(json.loads(result.out)["weights"]["resident"])
    tensors = resident[0] // (7 << 10)
    assert resident == [tensors * threads << 10 for threads in (7, 5, 4)]
