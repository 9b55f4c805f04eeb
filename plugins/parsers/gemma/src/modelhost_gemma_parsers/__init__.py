"""Parsers of the output of Gemma models for modelhost."""
