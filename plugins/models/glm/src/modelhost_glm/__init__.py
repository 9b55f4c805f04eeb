"""The GLM family for modelhost."""
