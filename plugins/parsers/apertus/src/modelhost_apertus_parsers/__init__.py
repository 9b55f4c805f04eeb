"""Parsers of the output of Apertus models for modelhost."""
