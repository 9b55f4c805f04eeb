"""Conformance kit for speculators.

In the tests of a speculator's package::

    from modelhost.testing.speculator import speculator_checks
    from modelhost_example.method import Example

    @pytest.mark.parametrize("check", speculator_checks(Example))
    def test_conformance(check):
        check()

A small random model generates with the speculator and without. The checks:

``well_formed``
    one draft for each sequence, no longer than asked for, of tokens in the vocabulary; tokens that were drawn come with
    distributions that give them a chance.
``proposes``
    a text that repeats itself gets a draft.
``independent``
    drafts that were not drawn at random are the same for a sequence alone and among others.
``forgets``
    and the same when the id of a finished sequence is used again.
``greedy``, ``greedy_in_a_batch``
    the tokens are those without speculation.
``distribution``
    so is the distribution of sampled tokens, by a chi-square test of 3000 answers with and without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from modelhost.api.speculator import Draft, SpeculatedSequence, SpeculationContext, SpeculatorMethod

from .arrays import ConformanceError, RandomWeights
from .parameters import parametrize
from .small_decoder import VARIANTS, Variant, decoder_graph

if TYPE_CHECKING:
    from modelhost.api.backend import Executable, Graph
    from modelhost.engine.engine import Engine
    from modelhost.engine.memory import MemoryPlan
    from modelhost.engine.sampling_params import SamplingParams
    from modelhost.reference import ReferenceBackend

__all__ = ["CHECKS", "Factory", "chi_square_limit", "speculator_checks"]

Factory = Callable[[SpeculationContext, object | None], SpeculatorMethod]
"""The target of a speculator's record."""

_LENGTH = 96
_SPECULATED = 4
_ANSWERS = 3000
_CHOICES = (5, 6, 7, 8)
"""The tokens of sampled answers: those of the second prompt, so that drafts from it have a chance, and one more."""
PROMPTS: tuple[tuple[int, ...], ...] = ((1,), (5, 6, 7, 5, 6, 7, 5, 6), (9,) * 7, (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5))
"""Of tokens in a vocabulary of 65."""
Answers = dict[str, list[int]]


def speculator_checks(
    factory: Factory, settings: object | None = None, *, expected_failures: Mapping[str, str] | None = None
) -> list[Any]:
    """All checks as parameters for ``pytest.mark.parametrize``.

    Args:
        factory: the target of the speculator's record.
        settings: what it is called with besides the context.
        expected_failures: name of a check to the reason why it fails. Such a check must fail.

    Raises:
        ValueError: ``expected_failures`` names a check that does not exist.
    """
    subject = _Subject(factory, settings)
    return parametrize({name: partial(check, subject) for name, check in CHECKS.items()}, expected_failures)


@dataclass
class _Subject:
    """The speculator under test and the model that it speculates for."""

    factory: Factory
    settings: object | None

    def method(self) -> SpeculatorMethod:
        return self.factory(SpeculationContext(Variant.vocabulary, _LENGTH, _SPECULATED), self.settings)

    def propose(self, method: SpeculatorMethod, *texts: Sequence[int], first: int = 0) -> Sequence[Draft]:
        """Drafts for the texts, which are checked."""
        sequences = [SpeculatedSequence(str(first + n), list(text), _SPECULATED) for n, text in enumerate(texts)]
        drafts = method.propose(sequences)
        if len(drafts) != len(sequences):
            raise ConformanceError(f"propose returned {len(drafts)} drafts for {len(sequences)} sequences")
        for sequence, draft in zip(sequences, drafts, strict=True):
            _require_well_formed(sequence, draft)
        return drafts

    @cached_property
    def _compiled(self) -> tuple[ReferenceBackend, Graph, RandomWeights]:
        from modelhost.reference import ReferenceBackend

        backend, weights = ReferenceBackend(), RandomWeights()
        return backend, decoder_graph(VARIANTS[1], backend, weights.encoding_of), weights

    def engine(self, *, speculate: bool, **settings: Any) -> Engine:
        """A fresh engine of the small model."""
        from modelhost.engine.config import EngineConfig
        from modelhost.engine.engine import Engine

        stated = {"method": "under-test", "num_speculative_tokens": _SPECULATED} if speculate else None
        config = EngineConfig.parse(
            block_size=4, max_model_len=_LENGTH, memory_bytes=2**28, speculative_config=stated, **settings
        )
        memory, executable = self._loaded(config)
        method = self.method() if speculate else None
        return Engine(executable, memory, config, vocab_size=Variant.vocabulary, speculator=method)

    def _loaded(self, config: Any) -> tuple[MemoryPlan, Executable]:
        from modelhost.engine.memory import plan_memory

        backend, graph, weights = self._compiled
        encoded = {name: ("f32", parameter.nbytes({})) for name, parameter in graph.parameters.items()}
        memory = plan_memory(graph, backend, encoded, config, _LENGTH)
        return memory, backend.compile(graph, weights, memory.layout)

    def greedy(self, *, speculate: bool, **settings: Any) -> Answers:
        from modelhost.engine.sampling_params import SamplingParams

        params = SamplingParams(temperature=0, max_tokens=40)
        requests = [(f"prompt of {len(prompt)}", prompt, params) for prompt in PROMPTS]
        return _run(self.engine(speculate=speculate, **settings), requests)

    def sampled(self, *, speculate: bool, first_seed: int) -> Counter[tuple[int, ...]]:
        """How often each answer of some tokens occurs."""
        from modelhost.engine.sampling_params import SamplingParams

        def params(seed: int) -> SamplingParams:
            return SamplingParams(seed=first_seed + seed, max_tokens=3, allowed_token_ids=list(_CHOICES))

        requests = [(str(seed), PROMPTS[1], params(seed)) for seed in range(_ANSWERS)]
        answers = _run(self.engine(speculate=speculate, max_num_seqs=64), requests)
        return Counter(map(tuple, answers.values()))


def _run(engine: Engine, requests: Sequence[tuple[str, Sequence[int], SamplingParams]]) -> Answers:
    for name, prompt, params in requests:
        engine.add_request(name, prompt, params)
    answers: Answers = {}
    while engine.busy:
        answers |= {out.request_id: list(out.outputs[0].token_ids) for out in engine.step() if out.finished}
    return answers


def _texts() -> Iterator[list[int]]:
    """Growing sequences: every beginning of the prompts and of a text that repeats itself."""
    for text in (*PROMPTS, (4, 8, 15, 16, 23, 42) * 4):
        for end in range(1, len(text) + 1):
            yield list(text[:end])


def _well_formed(subject: _Subject) -> None:
    method = subject.method()
    for number, text in enumerate(_texts()):
        subject.propose(method, text, first=number)
        method.finish(str(number))
    subject.propose(subject.method(), *list(_texts())[:9])
    nothing = SpeculatedSequence("none", [1, 2, 3, 1, 2], 0)
    _require_well_formed(nothing, subject.method().propose([nothing])[0])


def _require_well_formed(sequence: SpeculatedSequence, draft: Draft) -> None:
    tokens, drawn_from = list(draft.token_ids), draft.probabilities
    what = f"draft {tokens} for {list(sequence.token_ids)}"
    if len(tokens) > sequence.count:
        raise ConformanceError(f"{what}: has {len(tokens)} tokens, asked for were {sequence.count}")
    if any(not 0 <= token < Variant.vocabulary for token in tokens):
        raise ConformanceError(f"{what}: has tokens outside the vocabulary of {Variant.vocabulary}")
    if drawn_from is None or not tokens:
        return
    if drawn_from.shape != (len(tokens), Variant.vocabulary):
        raise ConformanceError(f"{what}: probabilities of shape {drawn_from.shape}")
    if (drawn_from < 0).any() or (abs(drawn_from.sum(axis=-1) - 1) > 1e-3).any():
        raise ConformanceError(f"{what}: probabilities must not be negative and add up to 1 in every row")
    if any(drawn_from[place, token] == 0 for place, token in enumerate(tokens)):
        raise ConformanceError(f"{what}: has a token that its distribution gives no chance")


def _proposes(subject: _Subject) -> None:
    method = subject.method()
    text = [4, 8, 15, 16, 23, 42] * 4
    if not any(subject.propose(method, text[:end])[0].token_ids for end in range(6, len(text))):
        raise ConformanceError(f"nothing is proposed anywhere in {text}")


def _independent(subject: _Subject) -> None:
    texts = [list(text) for text in (*PROMPTS, *(prompt[::-1] for prompt in PROMPTS), *PROMPTS)]
    together = subject.propose(subject.method(), *texts)
    for number, (text, ours) in enumerate(zip(texts, together, strict=True)):
        [alone] = subject.propose(subject.method(), text, first=number)
        _require_same(ours, alone, f"{text} among others")


def _forgets(subject: _Subject) -> None:
    method = subject.method()
    for text in ([7, 7, 8, 7, 7, 8, 7, 7], [1, 2, 7, 7]):
        [ours] = subject.propose(method, text)
        [fresh] = subject.propose(subject.method(), text)
        _require_same(ours, fresh, f"{text} under an id that was used before")
        method.finish("0")


def _require_same(ours: Draft, fresh: Draft, what: str) -> None:
    if ours.probabilities is None and list(ours.token_ids) != list(fresh.token_ids):
        raise ConformanceError(f"{what} gets the draft {list(ours.token_ids)}, alone {list(fresh.token_ids)}")


def _greedy(subject: _Subject, **settings: Any) -> None:
    wanted, got = (subject.greedy(speculate=speculate, **settings) for speculate in (False, True))
    for name, tokens in wanted.items():
        if got[name] != tokens:
            raise ConformanceError(f"{name}: generates {got[name]}, without speculation {tokens}")


def _distribution(subject: _Subject) -> None:
    without = subject.sampled(speculate=False, first_seed=0)
    ours = subject.sampled(speculate=True, first_seed=10 * _ANSWERS)
    answers = sorted(set(without) | set(ours))
    # Two samples of one size: the sum of (a - b)^2 / (a + b) is distributed as chi-square.
    statistic = sum((without[answer] - ours[answer]) ** 2 / (without[answer] + ours[answer]) for answer in answers)
    limit = chi_square_limit(len(answers) - 1)
    if statistic > limit:
        raise ConformanceError(
            f"sampled answers are distributed otherwise than without speculation: chi-square {statistic:.1f} with "
            f"{len(answers) - 1} degrees of freedom, allowed {limit:.1f}"
        )


def chi_square_limit(freedom: int) -> float:
    """What a chi-square variable exceeds once in 10,000 times (approximation of Wilson and Hilferty, 1931)."""
    quantile_of_normal = 3.719
    share = 2 / (9 * max(freedom, 1))
    return float(max(freedom, 1) * (1 - share + quantile_of_normal * share**0.5) ** 3)


CHECKS: dict[str, Callable[[_Subject], None]] = {
    "well_formed": _well_formed,
    "proposes": _proposes,
    "independent": _independent,
    "forgets": _forgets,
    "greedy": partial(_greedy, max_num_seqs=1),
    "greedy_in_a_batch": partial(_greedy, max_num_seqs=4, max_num_batched_tokens=9),
    "distribution": _distribution,
}
"""Every check by name."""
