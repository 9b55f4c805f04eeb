"""Parsers of the output of Cohere models for modelhost."""
