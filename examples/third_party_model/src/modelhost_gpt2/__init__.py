"""GPT-2 for modelhost."""
