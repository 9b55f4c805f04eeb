"""Parsers of the output of MiniCPM models for modelhost."""
