"""Parsers of the output of Jamba models for modelhost."""
