"""The format of the reasoning of Holo models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelhost.api.parsing import ReasoningTags


def thinking_disabled(options: Mapping[str, Any]) -> bool | None:
    """The output begins with reasoning unless `thinking` or `enable_thinking` is false."""
    return False if False in (options.get("thinking"), options.get("enable_thinking")) else None


holo2 = ReasoningTags(start=("<think>",), end=("</think>",), switch=thinking_disabled)
