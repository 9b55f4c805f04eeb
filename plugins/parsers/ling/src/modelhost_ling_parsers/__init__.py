"""Parsers of the output of Ling models for modelhost."""
