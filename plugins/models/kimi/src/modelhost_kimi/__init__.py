"""The Kimi family for modelhost."""
