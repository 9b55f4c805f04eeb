"""Parsers of the output of Hunyuan models for modelhost."""
