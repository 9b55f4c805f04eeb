"""What this package declares."""

from __future__ import annotations

from collections.abc import Iterator

from modelhost.api import ToolParser, hookimpl

API = (1, 0)


@hookimpl
def modelhost_tool_parsers() -> Iterator[ToolParser]:
    yield ToolParser(
        "phi4_mini_json",
        target="modelhost_phi_parsers.formats:phi4_mini_json",
        architectures=("Phi3ForCausalLM", "Phi4MMForCausalLM"),
        template=("functools[",),
        models="Phi-4-mini",
    )
