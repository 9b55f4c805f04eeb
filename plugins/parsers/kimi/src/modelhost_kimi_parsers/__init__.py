"""Parsers of the output of Kimi models for modelhost."""
