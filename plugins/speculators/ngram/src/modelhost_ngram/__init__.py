"""N-gram speculation for modelhost."""
