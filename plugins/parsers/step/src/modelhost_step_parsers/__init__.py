"""Parsers of the output of Step models for modelhost."""
