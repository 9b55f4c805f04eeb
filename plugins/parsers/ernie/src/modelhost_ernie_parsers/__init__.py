"""Parsers of the output of ERNIE models for modelhost."""
