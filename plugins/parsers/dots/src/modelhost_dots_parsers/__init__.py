"""Parsers of the output of dots models for modelhost."""
