"""Parsers of the output of Poolside models for modelhost."""
