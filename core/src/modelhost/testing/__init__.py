"""Conformance kits that authors of plugins run on their own packages. They need pytest."""
