"""The PyTorch backend for modelhost."""
