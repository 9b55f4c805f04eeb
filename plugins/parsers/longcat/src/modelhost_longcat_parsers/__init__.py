"""Parsers of the output of LongCat models for modelhost."""
