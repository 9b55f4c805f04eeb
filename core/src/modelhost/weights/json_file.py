"""Reading JSON objects with errors that name the file, line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from modelhost.api import CheckpointError


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: the file cannot be read, is not JSON, or holds something other than an object.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error
    try:
        value = json.loads(content)
    except json.JSONDecodeError as error:
        raise _invalid(path, f"line {error.lineno} column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise _invalid(path, "nested too deeply") from error
    except ValueError as error:
        raise _invalid(path, str(error)) from error
    if not isinstance(value, dict):
        raise _invalid(path, f"an object is wanted, it holds {type(value).__name__}")
    return value


def _invalid(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path} is not valid JSON ({what}). Correct the file or download it again.")
