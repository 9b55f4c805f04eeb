"""Parsers of the output of OLMo models for modelhost."""
