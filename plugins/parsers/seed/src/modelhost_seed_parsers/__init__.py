"""Parsers of the output of Seed-OSS models for modelhost."""
