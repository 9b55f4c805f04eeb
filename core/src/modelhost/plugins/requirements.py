"""Whether an installed plugin asks pip for a range of modelhost, so that one and the other can be upgraded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .info import CORE, PluginInfo

_REQUIREMENT = re.compile(r"modelhost(?![\w.-])\s*(\[[^]]*\])?\s*([^;@\[\]]*)(@[^;]*)?(;.*)?", re.IGNORECASE)
ADVICE = "It should require a range that ends before the next release that breaks it, such as modelhost>=0.1,<0.2"


def host_requirement_problem(requirements: Iterable[str]) -> str | None:
    """What is wrong with what a plugin requires of modelhost, or ``None`` when it is a range with both ends.

    Args:
        requirements: the lines ``Requires-Dist`` of its metadata.
    """
    for text in requirements:
        match = _REQUIREMENT.fullmatch(text.strip())
        if not match or "extra ==" in (match[4] or ""):
            continue
        versions = match[2].strip("() ")
        if match[3]:
            return f"requires {text.strip()!r}: one copy of modelhost, which replaces the installed one"
        if re.search(r"===?(?!.*\*)", versions):
            return f"requires {text.strip()!r}: one version of modelhost, so neither can be upgraded alone"
        lower, upper = re.search(r">=|>|~=|==", versions), re.search(r"(?<![<>=!~])<|~=|==", versions)
        return (
            None
            if lower and upper
            else f"requires {text.strip()!r}: a range without {'an end' if lower else 'a start'}"
        )
    return "does not require modelhost, so pip cannot tell which versions it goes with"


def requirement_problems(plugins: Iterable[PluginInfo]) -> dict[str, str]:
    """Distribution -> sentence, for the plugins whose requirement of modelhost is no range."""
    from importlib.metadata import PackageNotFoundError, requires

    problems = {}
    for distribution in dict.fromkeys(plugin.distribution for plugin in plugins if plugin.distribution != CORE):
        try:
            problem = host_requirement_problem(requires(distribution) or ())
        except PackageNotFoundError:
            continue
        if problem:
            problems[distribution] = f"{problem}. {ADVICE}"
    return problems
