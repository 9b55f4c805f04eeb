"""Parsers of the output of models whose checkpoint says in a response template how it is read for modelhost."""
