"""Bigram speculation for modelhost."""
