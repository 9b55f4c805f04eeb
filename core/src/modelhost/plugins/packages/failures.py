"""What pip's error output means, in a sentence."""

from __future__ import annotations

import platform
import re
import sysconfig

_PYTHON = re.compile(r"Package '([^']+)' requires a different Python: \S+ not in '([^']+)'")
_OLD_RELEASES = re.compile(r"Ignored the following versions that require a different python version: (.+)")
_WHEEL = re.compile(r"ERROR: (\S+\.whl) is not a supported wheel on this platform")
_NO_MATCH = re.compile(r"No matching distribution found for ([^\s(]+)")
_TAGS = re.compile(r"none of the wheel's tags \(([^)]+)\) are compatible[^\n]*?([\w.]+)-[^-/\s]+-[^/\s]+\.whl")
_CONFLICT = re.compile(r"The conflict is caused by:\n((?:[ \t]+.+\n)+)")


def failure_sentence(errors: str, verbose: str) -> str:
    """Why pip failed.

    Args:
        errors: its error output in a quiet run.
        verbose: all output of a run with ``-vv``, which tells of what was found and does not fit.
    """
    if match := _PYTHON.search(errors):
        return f"{match[1]} needs Python {match[2]}; this is Python {platform.python_version()}"
    if match := _WHEEL.search(errors):
        tags = "-".join(match[1].removesuffix(".whl").split("-")[-3:])
        return f"{match[1]} is for {tags}; this is {_here()}"
    if match := _CONFLICT.search(verbose):
        return f"these requirements contradict each other:\n{match[1].rstrip()}"
    if match := _NO_MATCH.search(errors):
        return _no_match(match[1], errors, verbose)
    if "externally-managed-environment" in errors:
        return (
            "this Python belongs to the operating system, which does not let pip change it. Use a virtual environment"
        )
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    return "pip failed: " + ("\n".join(lines) or errors.strip() or "it gave no reason")


def _no_match(requirement: str, errors: str, verbose: str) -> str:
    name = re.split(r"[<>=!~\[]", requirement, maxsplit=1)[0]
    if match := _OLD_RELEASES.search(errors):
        releases = re.sub(r" Requires-Python ", " needs Python ", match[1].strip())
        return f"no release of {name} runs on Python {platform.python_version()}: {releases}"
    wanted = name.replace("-", "_").replace(".", "_").lower()
    tags = [tags for tags, wheel in _TAGS.findall(verbose) if wheel.replace(".", "_").lower() == wanted]
    if tags:
        others = ", ".join(dict.fromkeys(tags))
        return f"{name} has no build for this machine, which is {_here()}. There are builds for {others}"
    return f"pip finds no distribution {requirement} in the indexes that it is set up to use"


def _here() -> str:
    return f"{platform.python_implementation()} {platform.python_version()} on {sysconfig.get_platform()}"
