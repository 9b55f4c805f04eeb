"""Parsers of the output of Granite models for modelhost."""
