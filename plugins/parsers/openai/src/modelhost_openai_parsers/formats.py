"""The format that gpt-oss models write."""

from __future__ import annotations

from modelhost.api.parsing import Harmony

harmony = Harmony()
"""Messages to the channels analysis, commentary and final; finds reasoning and calls at once"""
