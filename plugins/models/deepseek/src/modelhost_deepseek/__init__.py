"""The DeepSeek family for modelhost."""
