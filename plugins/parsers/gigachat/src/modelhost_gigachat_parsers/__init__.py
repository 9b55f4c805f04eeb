"""Parsers of the output of GigaChat models for modelhost."""
