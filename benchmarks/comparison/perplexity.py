"""Perplexity of both sides over the same tokens in the same windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from .worker import Worker

WINDOW = 512
"""Tokens of a window. Every token but the first is scored with those before it in its window."""


def perplexity(worker: Worker, windows: Sequence[Sequence[int]], *, generated: bool = False) -> float:
    """The perplexity of ``windows`` for the worker's model.

    Args:
        generated: compute the tokens as generated ones, whose kernels may differ from those of prompts.

    Raises:
        WorkerError: it fails.
    """
    return exp(worker.call("negative_log_likelihood", windows=windows, generated=generated))
