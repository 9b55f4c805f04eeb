"""Tool calls with one argument a line, for modelhost."""
