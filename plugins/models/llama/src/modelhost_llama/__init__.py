"""The Llama family for modelhost."""
