"""Parsers of the output of MiMo models for modelhost."""
