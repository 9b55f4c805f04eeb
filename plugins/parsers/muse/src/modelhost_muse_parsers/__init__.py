"""Parsers of the output of Muse models for modelhost."""
