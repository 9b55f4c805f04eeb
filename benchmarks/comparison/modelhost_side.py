"""The worker that measures modelhost, through the engine as a user gets it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .worker import serve


class ModelHost:
    """Handles requests for one model."""

    def prepare(self) -> None:
        """Import the engine."""
        import modelhost.bench
        import modelhost.engine.model  # noqa: F401

    def load(self, model: str, settings: Mapping[str, Any], prompt: Sequence[int]) -> dict[str, float]:
        """Load a model and let it produce a token.

        Returns:
            ``seconds`` since the call, and when the token was there on the clock of :func:`time.monotonic`.
        """
        from modelhost.bench import first_token_seconds
        from modelhost.engine.config import EngineConfig
        from modelhost.engine.model import ServedModel

        called = time.monotonic()
        self._served = ServedModel(model, EngineConfig.parse(**settings))
        self._engine = self._served.engine
        first_token_seconds(self._engine, prompt)
        now = time.monotonic()
        return {"seconds": now - called, "at": now}

    def describe(self) -> dict[str, Any]:
        """Facts about the loaded model, and what one step has to read and compute.

        ``kv_cache`` has the bytes of a token and the window, if there is one, of every KV group.
        """
        prepared = self._served.prepared
        return {
            "backend": prepared.backend_selection.chosen.id,
            "dtype": prepared.backend.dtype,
            "vocab_size": self._engine.vocab_size,
            "kv_cache": [[group.bytes_per_token, group.window] for group in prepared.memory.groups],
            **_work(prepared),
        }

    def prefill(self, prompt: Sequence[int], repeat: int) -> float:
        """Median seconds to the first token."""
        from modelhost.bench import first_token_seconds

        return median(first_token_seconds(self._engine, prompt) for _ in range(repeat))

    def decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Median seconds of a step in which every sequence gets a token."""
        from modelhost.bench import decode_seconds

        return median(decode_seconds(self._engine, prompts, steps))

    def memory(self) -> int | None:
        """Bytes of the largest resident set so far."""
        from modelhost.bench import peak_memory

        return peak_memory()

    def windows(self, file: str, length: int) -> list[list[int]]:
        """The text of ``file`` as tokens, cut into windows of ``length``; what the tokenizer begins texts with is kept.

        The last window is left out when it is not full.
        """
        tokenizer, text = self._served.tokenizer, Path(file).read_text(encoding="utf-8")
        if tokenizer is None:
            raise ValueError("the checkpoint has no tokenizer, so no perplexity can be computed")
        tokens = tokenizer.encode(text, add_special_tokens=False)
        start = tokenizer.encode("", add_special_tokens=True)
        size = length - len(start)
        return [[*start, *tokens[at : at + size]] for at in range(0, len(tokens) - size + 1, size)]

    def negative_log_likelihood(self, windows: Sequence[Sequence[int]], generated: bool) -> float:
        """Mean over all tokens but the first of each window, in nats.

        Args:
            generated: compute the tokens the way that generated ones are, not as a prompt.
        """
        from modelhost.engine.sampling_params import SamplingParams

        executable = self._engine.executable
        if generated:
            self._engine.executable = _AsGenerated(executable)
        try:
            total = sum(self._loss(window, SamplingParams(max_tokens=1, prompt_logprobs=0)) for window in windows)
        finally:
            self._engine.executable = executable
        return total / sum(len(window) - 1 for window in windows)

    def _loss(self, window: Sequence[int], params: Any) -> float:
        self._engine.add_request("window", window, params)
        while self._engine.busy:
            outputs = self._engine.step()
        logprobs: Any = outputs[0].prompt_logprobs
        return -float(sum(found[token].logprob for token, found in zip(window[1:], logprobs[1:], strict=True)))


class _AsGenerated:
    """An executable that takes all tokens for generated ones."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        self.weight_bytes = executable.weight_bytes

    def run(self, inputs: Mapping[str, Any]) -> Any:
        import numpy as np

        return self._executable.run({**inputs, "generated": np.ones_like(inputs["token_ids"])})


def _work(prepared: Any) -> dict[str, int]:
    """What a step of one token reads, and the multiplications and additions of its linear ops.

    Returns:
        ``bytes``: of all weights as they lie in the checkpoint, but for tables of which only rows are read.
        ``flops``: of a token whose logits are not wanted.
        ``logit_flops``: of a row of logits.
    """
    from modelhost.api.backend import Parameter
    from modelhost.api.step import LOGIT_ROWS

    read, flops, logit_flops = set(), 0, 0
    for node in prepared.graph.nodes:
        parameters = [tensor for tensor in node.tensors if isinstance(tensor, Parameter)]
        if node.op.name == "linear":
            size = 2 * parameters[0].sizes[0] * parameters[0].sizes[1]
            of_logits = node.outputs[0].shape[0] == LOGIT_ROWS
            flops, logit_flops = flops + size * (not of_logits), logit_flops + size * of_logits
        if node.op.name != "embed":
            read.update(parameters)
    return {
        "bytes": sum(prepared.source.encoded_bytes(parameter) for parameter in read),
        "flops": flops,
        "logit_flops": logit_flops,
    }


def main() -> None:
    side = ModelHost()
    names = ("prepare", "load", "describe", "prefill", "decode", "memory", "windows", "negative_log_likelihood")
    serve({name: getattr(side, name) for name in names})


if __name__ == "__main__":
    main()
