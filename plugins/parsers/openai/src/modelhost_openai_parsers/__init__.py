"""Parsers of the output of gpt-oss (harmony) models for modelhost."""
