"""Every error that a user of modelhost can meet, under one base class."""

from __future__ import annotations


class ModelHostError(Exception):
    """Base of all errors raised on purpose. The text says what, where and what to do."""


class PluginError(ModelHostError):
    """A plugin is broken, incompatible, ambiguous or not installed."""


class ConfigError(ModelHostError, ValueError):
    """A setting or a field of a model's configuration is missing or has a value that is not allowed."""


class CheckpointError(ModelHostError):
    """A checkpoint's files are missing, truncated or corrupt."""


class WeightError(CheckpointError):
    """Tensors of a checkpoint do not match the parameters of the model."""


class UnsupportedError(ModelHostError):
    """A valid request that this installation cannot serve: an op, an encoding, a device or a dtype."""


class GraphError(ModelHostError, TypeError):
    """An op was applied to operands whose shapes, dtypes or attributes do not fit its schema."""


class MemoryBudgetError(ModelHostError, MemoryError):
    """The memory plan exceeds the budget. Raised before anything is allocated."""


class RequestError(ModelHostError, ValueError):
    """A request's prompt or sampling parameters are not valid."""


class TokenizerError(ModelHostError):
    """A tokenizer or chat template is missing, corrupt or fails on the given input."""
