"""Parsers of the output of Mistral models for modelhost."""
