"""Parsers of the output of Qwen and Hermes models for modelhost."""
