"""Parsers of the output of Llama models for modelhost."""
