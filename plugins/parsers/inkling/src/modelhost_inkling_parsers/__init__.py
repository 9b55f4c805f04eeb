"""Parsers of the output of Inkling models for modelhost."""
