"""Checkpoints on disk: reading them, the encodings of their tensors, and matching them to a model's parameters."""
