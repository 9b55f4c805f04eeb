"""Parsers of the output of GLM models for modelhost."""
