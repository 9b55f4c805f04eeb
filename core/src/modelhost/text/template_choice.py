"""Which of a checkpoint's chat templates to use."""

from __future__ import annotations

from collections.abc import Mapping

from modelhost.api import TokenizerError


def choose_template(templates: Mapping[str, str], wanted: str | None, *, tools: bool) -> str:
    """Source of the template to use: the one named `wanted`, `wanted` itself as source, or the default.

    Raises:
        TokenizerError: no template is wanted and the checkpoint has none, or only ones with other names.
    """
    if wanted is not None:
        return templates.get(wanted, wanted)
    if tools and "tool_use" in templates:
        return templates["tool_use"]
    if "default" in templates:
        return templates["default"]
    if templates:
        raise TokenizerError(
            f"This checkpoint has several chat templates and none is the default: {', '.join(sorted(templates))}. "
            "Name one with --chat-template."
        )
    raise TokenizerError(
        "This checkpoint has no chat template. Pass one with --chat-template, or use plain completion with a prompt."
    )
