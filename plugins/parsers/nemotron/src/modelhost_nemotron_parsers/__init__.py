"""Parsers of the output of Nemotron models for modelhost."""
