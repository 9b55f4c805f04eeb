"""Conformance kit for model architectures.

A plugin's tests name a checkpoint and a reference that computes its logits; the kit makes the checks::

    from modelhost.testing.architecture import ArchitectureCase

    CASE = ArchitectureCase("MyForCausalLM", checkpoint=Path("tiny"), reference=my_reference)

    @pytest.mark.parametrize("check", CASE.checks())
    def test_architecture(check):
        check()

The checks:

``weights``
    every parameter has its tensor in the checkpoint, and every tensor its parameter.
``prefill``
    the logits of each token of each prompt, processed at once, are the reference's.
``decode``
    so are those of tokens that follow a prompt one by one.
``chunks_of_1``, ``chunks_of_3``, ``chunks_of_7``
    a prompt processed piecewise has the logits that it has when processed at once.
``batch``
    sequences processed together, in prefill and in decoding, have the logits that each has alone.
``optimized``
    the graph after all passes computes what the traced graph computes.
``greedy``
    the likeliest tokens, taken one after another, are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from modelhost.api import Architecture, ConfigError
from modelhost.api.backend import KernelBackend
from modelhost.api.model import CausalLM, trace
from modelhost.graph.tensor import evaluate
from modelhost.plugins import Registry, boot, load_target

from .checkpoints import registry_for, write_random_checkpoint
from .tiny import GraphRunner, TinySequence

if TYPE_CHECKING:
    import numpy.typing as npt

    from modelhost.graph.graph import Graph
    from modelhost.loading import ModelSource

    Float = npt.NDArray[np.float32]

__all__ = ["CHECKS", "ArchitectureCase", "Reference"]

CHUNKS = (1, 3, 7)
CONTINUATION = 9
CHECKS = ("weights", "prefill", "decode", *(f"chunks_of_{size}" for size in CHUNKS), "batch", "optimized", "greedy")
"""Names of all checks."""


class Reference(Protocol):
    """An independent implementation of the model under test."""

    def __call__(self, prompt: Sequence[int], continuation: Sequence[int]) -> Float:
        """The logits of every token, float32 ``[len(prompt) + len(continuation), vocab_size]``.

        Args:
            prompt: to be processed at once.
            continuation: to be processed one by one after it, as in generation.
        """
        ...


def _reference_backend() -> KernelBackend:
    from modelhost.reference import ReferenceBackend

    return ReferenceBackend()


class ArchitectureCase:
    """One checkpoint of one architecture, on one backend.

    Args:
        architecture: id of the architecture that must read the checkpoint.
        reference: called once with the checkpoint's path.
        checkpoint: a directory or ``.gguf`` file, or a function that returns its path.
        config: instead of ``checkpoint``: the fields of a config.json, for which random weights are made.
        model: the class under test, when no installed plugin declares it: one at the top level of an importable module.
        backend: makes the backend; the reference backend by default.
        prompts: token ids of several prompts; random ones of 1 to 19 tokens by default.
        generated: tokens that the ``greedy`` check generates after each prompt.
        tolerance: largest difference of a logit from the reference, as a fraction of the largest logit.
        exact: ``chunks_of_*`` and ``batch`` want equal bits; by default on the reference backend only, elsewhere the
            tolerance applies.
        expected_failures: names of checks that are known to fail, with the reason. One that passes is an error.

    Raises:
        ConfigError: ``checkpoint`` and ``config`` are both given or both missing, or an expected failure
            names no check.
    """

    def __init__(
        self,
        architecture: str,
        *,
        reference: Callable[[Path], Reference],
        checkpoint: Path | Callable[[], Path] | None = None,
        config: Mapping[str, Any] | None = None,
        model: type[CausalLM] | None = None,
        backend: Callable[[], KernelBackend] = _reference_backend,
        prompts: Sequence[Sequence[int]] | None = None,
        generated: int = 64,
        tolerance: float = 1e-4,
        exact: bool | None = None,
        expected_failures: Mapping[str, str] | None = None,
    ) -> None:
        if (checkpoint is None) == (config is None):
            raise ConfigError("an ArchitectureCase needs either a checkpoint or a config")
        self.expected_failures = dict(expected_failures or {})
        unknown = sorted(set(self.expected_failures) - set(CHECKS))
        if unknown:
            raise ConfigError(
                f"expected_failures: no check is called {unknown[0]!r}; the checks are {', '.join(CHECKS)}"
            )
        self.architecture = architecture
        self._model, self._checkpoint, self._config = model, checkpoint, config
        self._make_reference, self._make_backend = reference, backend
        self._prompts, self._generated = prompts, generated
        self._tolerance, self._exact = tolerance, exact

    def checks(self, label: str = "") -> list[Any]:
        """One ``pytest.param`` for each check: a function without arguments that raises when the check fails.

        Args:
            label: begins the id of every parameter, for tests of several cases.
        """
        import pytest

        marks = {
            name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in self.expected_failures.items()
        }
        ids = {name: f"{label}-{name}" if label else name for name in CHECKS}
        return [pytest.param(partial(self.run, name), id=ids[name], marks=marks.get(name, [])) for name in CHECKS]

    def run(self, check: str) -> None:
        """Run one check by name.

        Raises:
            AssertionError: it fails; the text says by how much and where.
            WeightError: the tensors of the checkpoint do not match the parameters.
        """
        kind, _, size = check.partition("_of_")
        run = {
            "weights": self._check_weights,
            "prefill": self._check_prefill,
            "decode": self._check_decode,
            "chunks": lambda: self._check_chunks(int(size)),
            "batch": self._check_batch,
            "optimized": self._check_optimized,
            "greedy": self._check_greedy,
        }
        run[kind]()

    @cached_property
    def path(self) -> Path:
        """The checkpoint."""
        if self._checkpoint is not None:
            return self._checkpoint() if callable(self._checkpoint) else self._checkpoint
        self._directory = TemporaryDirectory(prefix="modelhost-")
        model = self._model or load_target(self._registry.find(Architecture, self.architecture))
        return write_random_checkpoint(Path(self._directory.name), self.architecture, model, self._config or {})

    @cached_property
    def _registry(self) -> Registry:
        return boot() if self._model is None else registry_for(self._model, self.architecture)

    @cached_property
    def source(self) -> ModelSource:
        """The model under test."""
        from modelhost.loading import open_model

        return open_model(self.path, self._registry)

    @cached_property
    def _graph(self) -> Graph:
        return trace(self.source.model, "float32")

    @cached_property
    def _backend(self) -> KernelBackend:
        return self._make_backend()

    @cached_property
    def runner(self) -> GraphRunner:
        """Runs the optimised graph."""
        return self._runner(optimized=True)

    def _runner(self, *, optimized: bool) -> GraphRunner:
        longest = max(map(len, self.prompts)) + max(self._generated, CONTINUATION)
        places = len(self.prompts)
        return GraphRunner(self.source, self._backend, optimized=optimized, places=places, max_length=longest)

    @cached_property
    def reference(self) -> Reference:
        """The reference for :attr:`path`."""
        return self._make_reference(self.path)

    @cached_property
    def prompts(self) -> list[list[int]]:
        """The prompts."""
        if self._prompts is not None:
            return [list(prompt) for prompt in self._prompts]
        return self._random_tokens(1, 5, 12, 19)

    @cached_property
    def _continuations(self) -> list[list[int]]:
        return self._random_tokens(*(CONTINUATION for _ in self.prompts))

    def _random_tokens(self, *counts: int) -> list[list[int]]:
        rng = np.random.default_rng(1)
        vocabulary = evaluate(self._graph.outputs["logits"].shape[-1], {})
        return [rng.integers(0, vocabulary, count).tolist() for count in counts]

    def _check_weights(self) -> None:
        chosen = self.source.selection.chosen.id
        _require(chosen == self.architecture, f"{self.path} is read by {chosen}, not by {self.architecture}")
        unused = set(self.source.weights()) - set(self._graph.parameters)
        _require(not unused, f"parameters that no op uses: {', '.join(sorted(unused))}")

    def _check_prefill(self) -> None:
        for prompt in self.prompts:
            self._compare(self.runner.logits(prompt), self.reference(prompt, ()), f"prompt of {len(prompt)}")

    def _check_decode(self) -> None:
        for prompt, more in zip(self.prompts, self._continuations, strict=True):
            logits = self.runner.logits(prompt, more)
            self._compare(logits, self.reference(prompt, more), f"prompt of {len(prompt)} and {len(more)} more")

    def _check_chunks(self, size: int) -> None:
        for prompt, more in zip(self.prompts, self._continuations, strict=True):
            whole = self.runner.logits(prompt, more)
            self._same(self.runner.logits(prompt, more, chunk=size), whole, f"prompt of {len(prompt)} by {size}")

    def _check_batch(self) -> None:
        alone = [self.runner.logits(p, more) for p, more in zip(self.prompts, self._continuations, strict=True)]
        together = self._together()
        for prompt, ours, theirs in zip(self.prompts, together, alone, strict=True):
            self._same(ours, theirs, f"prompt of {len(prompt)} among {len(alone)}")

    def _together(self) -> list[Float]:
        """All sequences in one batch. The first joins when the others are being decoded."""
        sequences = [self.runner.start(len(prompt)) for prompt in self.prompts]
        texts = [[*p, *more] for p, more in zip(self.prompts, self._continuations, strict=True)]
        logits: list[list[Float]] = [[] for _ in sequences]
        late = len(sequences) > 1
        for step in range(1 + late + max(map(len, self._continuations))):
            active = [n for n, s in enumerate(sequences) if s.length < len(texts[n]) and (step or n or not late)]
            chunks = [(sequences[n], self._next(sequences[n], texts[n])) for n in active]
            for n, rows in zip(active, self.runner.step(*chunks), strict=True):
                logits[n].append(rows)
        return [np.concatenate(rows) for rows in logits]

    @staticmethod
    def _next(sequence: TinySequence, text: list[int]) -> list[int]:
        end = max(sequence.prompt_length, sequence.length + 1)
        return text[sequence.length : end]

    def _check_optimized(self) -> None:
        plain = self._runner(optimized=False)
        for prompt, more in zip(self.prompts, self._continuations, strict=True):
            self._compare(self.runner.logits(prompt, more), plain.logits(prompt, more), f"prompt of {len(prompt)}")

    def _check_greedy(self) -> None:
        for prompt in self.prompts:
            ours = self.runner.greedy(prompt, self._generated)
            logits = self.reference(prompt, ours[:-1])[len(prompt) - 1 :]
            theirs = logits.argmax(axis=-1).tolist()
            at = next((n for n, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]), None)
            if at is not None:
                gap = float(logits[at].max() - logits[at][ours[at]])
                raise AssertionError(
                    f"prompt of {len(prompt)}: generated token {at} is {ours[at]}, the reference has {theirs[at]}, "
                    f"whose logit is higher by {gap:.3g}"
                )

    def _same(self, ours: Float, theirs: Float, what: str) -> None:
        exact = self._backend.name == "reference" if self._exact is None else self._exact
        if not exact:
            self._compare(ours, theirs, what)
        elif not np.array_equal(ours, theirs):
            raise AssertionError(f"{what}: not equal bit for bit; {_difference(ours, theirs)[1]}")

    def _compare(self, ours: Float, theirs: Float, what: str) -> None:
        _require(ours.shape == theirs.shape, f"{what}: logits of shape {ours.shape}, the reference has {theirs.shape}")
        _require(bool(np.isfinite(ours).all()), f"{what}: logits are not finite")
        difference, text = _difference(ours, theirs)
        _require(difference <= self._tolerance, f"{what}: {text}, more than {self._tolerance:g}")


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def _difference(ours: Float, theirs: Float) -> tuple[float, str]:
    """The largest difference as a fraction of the largest logit, and where it is."""
    differences = np.abs(ours - theirs)
    token, entry = np.unravel_index(int(differences.argmax()), differences.shape)
    fraction = float(differences[token, entry] / np.abs(theirs).max())
    return fraction, f"logit {entry} of token {token} differs by {fraction:.3g} of the largest logit"
