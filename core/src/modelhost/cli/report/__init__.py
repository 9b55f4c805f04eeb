"""The page of ``modelhost explain --html``: a model's graph and its memory plan, drawn."""

from __future__ import annotations

from .page import render_page

__all__ = ["render_page"]
