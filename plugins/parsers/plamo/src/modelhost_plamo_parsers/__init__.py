"""Parsers of the output of PLaMo models for modelhost."""
