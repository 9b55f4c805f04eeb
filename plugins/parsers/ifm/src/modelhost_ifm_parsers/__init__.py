"""Parsers of the output of the models of MBZUAI's Institute of Foundation Models for modelhost."""
