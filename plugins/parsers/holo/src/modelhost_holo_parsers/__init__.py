"""Parsers of the output of Holo models for modelhost."""
