"""Processes that measure when they are told to. Requests and answers are lines of JSON on pipes.

A worker answers only when its threads have come to rest, so that it takes nothing from the one that measures next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_REST_INTERVAL_S = 0.02
_REST_SHARE = 0.1
_REST_LIMIT_S = 5.0


class WorkerError(Exception):
    """A worker failed. The text has its error or the end of what it wrote to standard error."""


class Worker:
    """A process that runs a module of this package which calls :func:`serve`.

    Args:
        module: its name in this package.
        environment: variables on top of this process's own.

    Attributes:
        started: when it was started, on the clock of :func:`time.monotonic`.
    """

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        package = Path(__file__).parent
        path = os.pathsep.join([str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{package.name}.{module}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**_inherited(), **(environment or {}), "PYTHONPATH": path},
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, request: str, **arguments: Any) -> Any:
        """Have the worker handle a request and return its result.

        Raises:
            WorkerError: it failed or is gone.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or stdin.closed:
            raise WorkerError(f"{request}: the worker is closed")
        try:
            stdin.write(json.dumps({"request": request, "arguments": arguments}).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise WorkerError(f"{request}: the worker ended with code {self._process.wait()}\n{self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{request}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:].decode(errors="replace")


def _inherited() -> dict[str, str]:
    """The environment, but Python may keep bytecode: pip compiles the packages that it installs."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def serve(handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Handle requests until standard input ends. What handlers print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        message = json.loads(line)
        try:
            result = handlers[message["request"]](**message["arguments"])
            rest()
            answer = {"result": result}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def rest() -> None:
    """Wait until the threads of this process have stopped spinning.

    Raises:
        WorkerError: they do not stop.
    """
    deadline = time.monotonic() + _REST_LIMIT_S
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(_REST_INTERVAL_S)
        if time.process_time() - before < _REST_SHARE * _REST_INTERVAL_S:
            return
    raise WorkerError(f"threads of this process are still busy {_REST_LIMIT_S:.0f} s after the measurement")
