"""Random traffic for an engine: requests as users send them, the loop that serves them, and what an answer must be."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modelhost import SamplingParams
from modelhost.engine.engine import Engine
from modelhost.engine.outputs import CompletionOutput, RequestOutput

Generator = np.random.Generator
WIDTH = 16
"""Most prompts that are unfinished at one time."""


@dataclass(frozen=True)
class Job:
    """A request.

    Attributes:
        abort_after: steps after which its user gives up.
    """

    id: str
    prompt: array[int]
    params: SamplingParams
    priority: int = 0
    abort_after: int | None = None


@dataclass(frozen=True)
class Answer:
    """What is kept of an answer.

    Attributes:
        logprobs: float64, of its tokens; empty when they were not asked for.
    """

    token_ids: array[int]
    logprobs: bytes
    finish_reason: str | None
    stop_reason: int | str | None

    @classmethod
    def of(cls, output: CompletionOutput) -> Answer:
        rows = zip(output.token_ids, output.logprobs or (), strict=False)
        logprobs = array("d", (row[token].logprob for token, row in rows)).tobytes()
        return cls(array("i", output.token_ids), logprobs, output.finish_reason, output.stop_reason)

    def begins(self, other: Answer) -> bool:
        """Whether ``other`` goes on from here, bit for bit."""
        same = other.token_ids[: len(self.token_ids)] == self.token_ids
        return same and other.logprobs.startswith(self.logprobs)


@dataclass(frozen=True)
class Served:
    """A request and its answers."""

    job: Job
    answers: tuple[Answer, ...]


class Users:
    """Makes requests that differ in everything a request can differ in.

    Args:
        seed: of the random numbers.
        vocab_size: tokens of prompts are below it.
        context: tokens of prompt and answer together.
        words: stop strings and bad words to choose from; none when the model has no tokenizer.
        longest_answer: tokens.
    """

    def __init__(
        self, seed: int, vocab_size: int, context: int, *, words: Sequence[str] = (), longest_answer: int = 48
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._vocab_size, self._context = vocab_size, context
        self._words, self._longest_answer = list(words), longest_answer
        self._openings = [self._tokens(int(n)) for n in self._rng.integers(8, context // 2, 6)]
        self._recent: list[Served] = []
        self._count = 0

    def hear(self, served: Served) -> None:
        """An answer, to which some later prompts are a reply."""
        self._recent = [*self._recent[-7:], served]

    def jobs(self, count: int) -> Iterator[Job]:
        """``count`` requests, each made when it is asked for. The first one fills the context but for a token."""
        for _ in range(count):
            prompt = self._tokens(self._context - 1) if self._count == 0 else self._prompt()
            self._count += 1
            abort = int(self._rng.integers(1, 30)) if self._rng.random() < 0.1 else None
            yield Job(f"job-{self._count}", prompt, self._params(), int(self._rng.integers(0, 3)), abort)

    def _tokens(self, count: int) -> array[int]:
        return array("i", self._rng.integers(0, self._vocab_size, count).tolist())

    def _prompt(self) -> array[int]:
        most = self._context - 1
        kind = self._rng.choice(["fresh", "opening", "repetitive", "reply"], p=[0.3, 0.35, 0.2, 0.15])
        if kind == "fresh":
            prompt = self._tokens(self._length(most))
        elif kind == "repetitive":
            phrase = self._tokens(int(self._rng.integers(2, 9)))
            prompt = phrase * int(self._rng.integers(2, 8))
        elif kind == "reply" and self._recent:
            served = self._recent[int(self._rng.integers(len(self._recent)))]
            prompt = served.job.prompt + served.answers[0].token_ids + self._tokens(self._length(20))
        else:
            opening = self._openings[int(self._rng.integers(len(self._openings)))]
            prompt = opening + self._tokens(self._length(most - len(opening)))
        return prompt[:most]

    def _length(self, most: int) -> int:
        """From 1 to ``most``, all orders of magnitude alike."""
        return int(np.exp(self._rng.uniform(0, np.log(most))))

    def _params(self) -> SamplingParams:
        rng = self._rng
        fields: dict[str, Any] = {
            "max_tokens": int(rng.integers(1, self._longest_answer + 1)),
            "ignore_eos": bool(rng.random() < 0.3),
            "logprobs": int(rng.integers(0, 4)) if rng.random() < 0.4 else None,
            "temperature": 0,
        }
        if rng.random() < 0.5:
            fields |= {"temperature": float(rng.uniform(0.2, 1.5)), "seed": int(rng.integers(1 << 40))}
            fields |= {"n": int(rng.choice([1, 1, 2, 4])), "top_p": float(rng.uniform(0.5, 1.0))}
            fields |= {"top_k": int(rng.choice([0, 1, 8, 40])), "min_p": float(rng.choice([0.0, 0.05]))}
        for chance, more in ((0.2, self._stops), (0.15, self._penalties), (0.1, self._restrictions)):
            if rng.random() < chance:
                fields |= more()
        return SamplingParams(**fields)

    def _stops(self) -> dict[str, Any]:
        ids = self._rng.integers(0, self._vocab_size, max(2, self._vocab_size // 50)).tolist()
        return {"stop_token_ids": ids, "min_tokens": int(self._rng.integers(0, 2)), "stop": self._words[:3]}

    def _penalties(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "repetition_penalty": float(rng.uniform(0.9, 1.3)),
            "presence_penalty": float(rng.uniform(-1, 1)),
            "frequency_penalty": float(rng.uniform(-1, 1)),
        }

    def _restrictions(self) -> dict[str, Any]:
        ids = self._rng.choice(self._vocab_size, self._vocab_size // 2, replace=False).tolist()
        bias = {int(ids[0]): 3.0, int(ids[1]): -3.0}
        return {"allowed_token_ids": ids, "logit_bias": bias, "bad_words": self._words[3:]}


def serve(engine: Engine, users: Users, count: int, seed: int) -> Iterator[Served]:
    """Let ``engine`` serve ``count`` requests that come and are given up at random times."""
    rng = np.random.default_rng(seed)
    jobs = users.jobs(count)
    ages: dict[str, int] = {}
    open_jobs: dict[str, Job] = {}
    more = True
    while more or open_jobs:
        wanted = int(rng.integers(1, WIDTH + 1))
        while more and len(open_jobs) < wanted:
            job = next(jobs, None)
            more = job is not None
            if job is not None:
                open_jobs[job.id], ages[job.id] = job, 0
                engine.add_request(job.id, job.prompt, job.params, priority=job.priority)
        finished = [output for output in engine.step() if output.finished]
        for id in ages:
            ages[id] += 1
        ended = {output.request_id for output in finished}
        impatient = [id for id, job in open_jobs.items() if id not in ended and ages[id] == job.abort_after]
        finished += [output for id in impatient if (output := engine.abort(id)) is not None]
        for output in finished:
            del ages[output.request_id]
            served = _served(open_jobs.pop(output.request_id), output)
            users.hear(served)
            yield served


def _served(job: Job, output: RequestOutput) -> Served:
    assert output.error is None, f"{job}: {output.error}"
    for answer in output.outputs:
        check_end(job, answer)
    return Served(job, tuple(map(Answer.of, output.outputs)))


def check_end(job: Job, answer: CompletionOutput, context: int | None = None) -> None:
    """An answer ended as its parameters say.

    Raises:
        AssertionError: it did not.
    """
    params, length = job.params, len(answer.token_ids)
    if answer.finish_reason == "abort":
        assert job.abort_after is not None, f"{job.id} was not aborted"
        assert params.max_tokens is not None and length < params.max_tokens
    elif answer.finish_reason == "length":
        assert length == params.max_tokens or context is None or len(job.prompt) + length == context
    else:
        assert answer.finish_reason == "stop", f"{job.id} ended with {answer.finish_reason!r}"
        assert length >= params.min_tokens
        _check_stop(params, answer)


def _check_stop(params: SamplingParams, answer: CompletionOutput) -> None:
    if isinstance(answer.stop_reason, str):
        assert answer.stop_reason in (params.stop or ())
        assert params.min_tokens or answer.stop_reason not in answer.text
    elif answer.stop_reason is not None:
        assert answer.stop_reason in (params.stop_token_ids or ()) and answer.token_ids[-1] == answer.stop_reason
    else:
        assert not params.ignore_eos


def alone(engine: Engine, job: Job) -> list[Answer]:
    """The answers to ``job`` when the engine has nothing else to do."""
    answers: list[Answer] = []
    for index in range(job.params.n):
        seed = None if job.params.seed is None else job.params.seed + index
        engine.add_request(job.id, job.prompt, replace(job.params, n=1, seed=seed))
        while engine.busy:
            outputs = engine.step()
        answers.append(Answer.of(outputs[0].outputs[0]))
    return answers


def mixes_origins(served: Served, others: Sequence[Served], block_size: int) -> bool:
    """Whether a cached block of ``served`` may come from a sequence in which its tokens had another origin.

    A token that the model generated in one sequence can belong to the prompt of another. A backend may compute the two
    differently, so the blocks are equal bit for bit only in deterministic mode.
    """
    prompt = served.job.prompt
    for answer in served.answers:
        tokens = prompt + answer.token_ids
        for other in others:
            for theirs in other.answers:
                common = _common(tokens, other.job.prompt + theirs.token_ids) // block_size * block_size
                first, second = sorted((len(prompt), len(other.job.prompt)))
                if first != second and common > first:
                    return True
    return False


def _common(first: array[int], second: array[int]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
