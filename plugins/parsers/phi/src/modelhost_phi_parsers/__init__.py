"""Parsers of the output of Phi models for modelhost."""
