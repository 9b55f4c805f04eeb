"""Parsers of the output of InternLM models for modelhost."""
