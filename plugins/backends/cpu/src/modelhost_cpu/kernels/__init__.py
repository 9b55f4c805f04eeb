"""Kernels, one family a file: how each is computed, and how the ops of the graph become calls of it."""
