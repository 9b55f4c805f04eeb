"""The Qwen family for modelhost."""
