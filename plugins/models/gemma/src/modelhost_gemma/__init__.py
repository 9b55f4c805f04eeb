"""The Gemma family for modelhost."""
