"""Parsers of the output of MiniMax models for modelhost."""
