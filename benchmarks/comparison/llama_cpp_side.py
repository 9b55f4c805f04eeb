"""The worker that measures llama.cpp. What is timed is what llama-bench times: ``llama_decode``, without sampling."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from .libllama import Context, Library, Model
from .worker import serve


class LlamaCpp:
    """Handles requests for one model in one configuration.

    There is a context for one sequence and, where asked for, another for a batch.
    """

    def prepare(self, folder: str) -> None:
        """Load the library."""
        self._interpreter = _status("VmRSS")
        self._library = Library(Path(folder))

    def load(
        self,
        model: str,
        repack: bool,
        flash_attention: bool,
        threads: int,
        length: int,
        batch: int,
        batch_length: int,
        prompt: Sequence[int],
    ) -> dict[str, float]:
        """Load a model and process a prompt.

        Args:
            batch: sequences of the context for batches; no such context when 1.

        Returns:
            ``seconds`` since the call, and when the logits were there on the clock of :func:`time.monotonic`.
        """
        called = time.monotonic()
        self._model = Model(self._library, Path(model), repack=repack)
        self._context = partial(Context, self._model, threads=threads, flash_attention=flash_attention)
        self._single = self._context(length=length)
        self._run(self._single, [prompt])
        now = time.monotonic()
        if batch > 1:
            self._batch = self._context(length=batch_length, sequences=batch)
        return {"seconds": now - called, "at": now}

    def describe(self) -> dict[str, Any]:
        """Facts about the library and the model."""
        return {"version": self._library.version().decode(), "vocab_size": self._model.vocab_size}

    def prefill(self, prompt: Sequence[int], repeat: int) -> float:
        """Median seconds to the logits of the prompt's last token."""
        return median(self._run(self._single, [prompt]) for _ in range(repeat))

    def decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Median seconds of a step of one token for every sequence. The tokens are those of the prompts again."""
        context = self._single if len(prompts) == 1 else self._batch
        self._run(context, prompts)
        start = len(prompts[0])
        seconds = []
        for step in range(steps):
            context.fill([[prompt[step % start]] for prompt in prompts], start + step)
            seconds.append(_timed(context))
        return median(seconds)

    def memory(self) -> int:
        """Bytes of the largest resident set so far, less what the interpreter had before the library was loaded."""
        return _status("VmHWM") - self._interpreter

    def negative_log_likelihood(self, windows: Sequence[Sequence[int]], generated: bool) -> float:
        """Mean over all tokens but the first of each window, in nats.

        Args:
            generated: give llama.cpp one token at a time.
        """
        longest = max(map(len, windows))
        context = self._context(length=longest, outputs=longest)
        one = self._loss_by_token if generated else self._loss
        total = sum(one(context, window) for window in windows)
        context.close()
        return total / sum(len(window) - 1 for window in windows)

    def _loss(self, context: Context, window: Sequence[int]) -> float:
        context.clear()
        context.fill([window], all_logits=True)
        context.decode()
        return sum(self._surprise(context, row, token) for row, token in enumerate(window[1:]))

    def _loss_by_token(self, context: Context, window: Sequence[int]) -> float:
        context.clear()
        total = 0.0
        for position, token in enumerate(window[:-1]):
            context.fill([[token]], position)
            context.decode()
            total += self._surprise(context, 0, window[position + 1])
        return total

    def _surprise(self, context: Context, row: int, token: int) -> float:
        """The negative logarithm of a token's probability."""
        import numpy as np

        logits = np.ctypeslib.as_array(context.logits(row), (self._model.vocab_size,)).astype(np.float64)
        top = logits.max()
        return float(top + np.log(np.exp(logits - top).sum()) - logits[token])

    @staticmethod
    def _run(context: Context, prompts: Sequence[Sequence[int]]) -> float:
        context.clear()
        context.fill(prompts)
        return _timed(context)


def _timed(context: Context) -> float:
    started = time.perf_counter()
    context.decode()
    return time.perf_counter() - started


def _status(field: str) -> int:
    """Bytes of a field of ``/proc/self/status``."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {field}")


def main() -> None:
    side = LlamaCpp()
    names = ("prepare", "load", "describe", "prefill", "decode", "memory", "negative_log_likelihood")
    serve({name: getattr(side, name) for name in names})


if __name__ == "__main__":
    main()
