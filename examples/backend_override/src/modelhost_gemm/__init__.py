"""A backend with one kernel of its own, for modelhost."""
