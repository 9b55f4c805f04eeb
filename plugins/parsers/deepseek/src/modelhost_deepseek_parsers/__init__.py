"""Parsers of the output of DeepSeek models for modelhost."""
