"""Parsers of the output of LFM models for modelhost."""
