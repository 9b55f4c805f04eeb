"""Parsers of the output of xLAM models for modelhost."""
