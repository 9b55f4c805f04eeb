"""The step loop: schedule, run, sample, emit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelhost.api import RequestError
from modelhost.api.backend import Executable, SamplingExecutable
from modelhost.api.speculator import SpeculatorMethod
from modelhost.text.tokenizer import Tokenizer

from .answer import Answer
from .batch import LogitSpan, build_batch
from .config import EngineConfig
from .kv_cache import KVCacheManager
from .logit_ops import NUMPY
from .logprobs import top_logprobs
from .memory import MemoryPlan
from .outputs import RequestOutput
from .reading import OutputReader
from .request import Request
from .sampler import Sampled, Sampler, SamplingError
from .sampling_params import SamplingParams
from .scheduler import Chunk, Scheduler
from .speculation import Speculation, SpeculationStatistics
from .stopping import TokenStops

Logits = npt.NDArray[np.float32]
Drawn = list[Sampled] | SamplingError
"""What sampling gave a sequence: tokens, at least one, or why there is none."""


@dataclass(slots=True)
class _Prompt:
    """A prompt and its answers."""

    output: RequestOutput
    answers: list[Answer]


class Engine:
    """Runs requests on a compiled model. Not thread-safe: one thread calls it.

    An exception that leaves :meth:`step`, a KeyboardInterrupt among them, ends all requests as ``"abort"`` and forgets
    the cached blocks. The engine can be used again.

    Args:
        executable: the compiled model.
        memory: the plan that it was compiled by.
        config: the settings.
        vocab_size: number of logits.
        eos_token_ids: tokens that end an answer.
        tokenizer: to give answers as text; without one they are token ids only.
        length_dependent: the model's cached values depend on the prompt's length.
        speculator: proposes tokens ahead, up to ``config.num_speculative_tokens`` at a time.

    Attributes:
        executable: what runs the steps.
    """

    def __init__(
        self,
        executable: Executable,
        memory: MemoryPlan,
        config: EngineConfig,
        *,
        vocab_size: int,
        eos_token_ids: Sequence[int] = (),
        tokenizer: Tokenizer | None = None,
        length_dependent: bool = False,
        speculator: SpeculatorMethod | None = None,
    ) -> None:
        self.config = config
        self.max_model_len = memory.max_model_len
        self.vocab_size = vocab_size
        self.tokenizer = tokenizer
        self.executable: Executable = executable
        self._eos_token_ids = tuple(eos_token_ids)
        self._logit_ops = executable if isinstance(executable, SamplingExecutable) else NUMPY
        self._sampler = Sampler(config.seed, tokenizer, self._logit_ops)
        self._memory = memory
        self._length_dependent = length_dependent
        self._changing = False
        self._speculation = Speculation(
            speculator, config.num_speculative_tokens, vocab_size=vocab_size, max_model_len=memory.max_model_len
        )
        self._prompts: dict[str, _Prompt] = {}
        self._answers: dict[Request, tuple[str, Answer]] = {}
        self._start_empty()

    def _start_empty(self) -> None:
        """A cache without blocks in use, and nothing to do."""
        config = self.config
        self._cache = KVCacheManager(
            self._memory.groups,
            self._memory.layout,
            prefix_caching=config.enable_prefix_caching,
            length_dependent=self._length_dependent,
        )
        self._scheduler = Scheduler(
            self._cache,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            by_priority=config.scheduling_policy == "priority",
        )

    @contextmanager
    def _change(self) -> Iterator[None]:
        """What an exception leaves half changed is thrown away before the next change."""
        if self._changing:
            self._give_up()
        self._changing = True
        yield
        self._changing = False

    def _give_up(self) -> None:
        """End all requests and start empty. It can be interrupted and called again."""
        for prompt in self._prompts.values():
            for answer in prompt.answers:
                answer.output.finish_reason = answer.output.finish_reason or "abort"
                self._speculation.finish(answer.request)
        self._start_empty()
        self._answers.clear()
        self._prompts.clear()

    @property
    def busy(self) -> bool:
        """Whether a request is unfinished."""
        return bool(self._prompts)

    @property
    def speculation(self) -> SpeculationStatistics:
        """Counts of proposed and accepted tokens."""
        return self._speculation.statistics

    @property
    def scheduler(self) -> Scheduler:
        """The waiting and running requests, for statistics."""
        return self._scheduler

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        *,
        prompt: str | None = None,
        priority: int = 0,
        readers: Sequence[OutputReader] = (),
    ) -> None:
        """Queue a prompt.

        Args:
            readers: for each answer, what finds reasoning, content and calls in its text.

        Raises:
            RequestError: the prompt is empty, too long or has tokens outside the vocabulary; the id is in use; or the
                parameters ask for more than the engine allows.
        """
        tokens = list(prompt_token_ids)
        self._check(request_id, tokens, params)
        answers = [
            self._answer(f"{request_id}/{index}", index, tokens, params, priority, readers[index] if readers else None)
            for index in range(params.n)
        ]
        output = RequestOutput(request_id, prompt, tokens, [answer.output for answer in answers])
        if params.prompt_logprobs is not None:
            output.prompt_logprobs = [None]
        with self._change():
            self._prompts[request_id] = _Prompt(output, answers)
            for answer in answers:
                self._answers[answer.request] = (request_id, answer)
                self._scheduler.add(answer.request)

    def abort(self, request_id: str) -> RequestOutput | None:
        """Stop a request and free its memory.

        Returns:
            its last output, or ``None`` when there is no such request.
        """
        with self._change():
            prompt = self._prompts.get(request_id)
            if prompt is None:
                return None
            for answer in prompt.answers:
                answer.output.begin_step()
                if not answer.output.finished:
                    answer.finish("abort")
                    self._retire(answer)
            return self._prompts.pop(request_id).output

    def step(self) -> list[RequestOutput]:
        """Run one step.

        Returns:
            the requests that got a token, with all they have so far.
        """
        with self._change():
            return self._step()

    def _step(self) -> list[RequestOutput]:
        self._speculation.propose(self._scheduler.running)
        chunks = self._scheduler.schedule()
        if not chunks:
            return []
        batch = build_batch(chunks, self._cache)
        logits = self.executable.run(batch.inputs)["logits"]
        self._record_prompt_logprobs(batch.spans, logits)
        drawn = self._draw([span for span in batch.spans if span.chunk.last], logits)
        for chunk in chunks:
            self._commit(chunk, drawn.get(chunk))
        return [self._emit(request_id) for request_id in self._push(drawn)]

    def _draw(self, spans: list[LogitSpan], logits: Logits) -> dict[Chunk, Drawn]:
        """The next tokens of every completed chunk: one, and more where a draft was right.

        For a request whose logits leave nothing to sample it is the error.
        """
        drawn: dict[Chunk, Drawn] = {
            span.chunk: self._verified(span, logits) for span in spans if span.chunk.draft_length
        }
        plain = [span for span in spans if not span.chunk.draft_length]
        while plain:
            rows = _rows(logits, [span.end - 1 for span in plain])
            try:
                sampled = self._sampler.sample_batch(rows, [span.chunk.request.sampling for span in plain])
            except SamplingError as error:
                failed = next(span for span in plain if span.chunk.request.id == error.request_id)
                drawn[failed.chunk] = error
                plain.remove(failed)
            else:
                return drawn | {span.chunk: [token] for span, token in zip(plain, sampled, strict=True)}
        return drawn

    def _verified(self, span: LogitSpan, logits: Logits) -> Drawn:
        request, count = span.chunk.request, span.chunk.draft_length
        try:
            return self._speculation.verify(request, logits[span.end - 1 - count : span.end], self._sampler)
        except SamplingError as error:
            return error

    def _commit(self, chunk: Chunk, drawn: Drawn | None) -> None:
        """Note what the step has computed. Of a draft only the accepted tokens count.

        A recurrent state cannot be cut back: when a token was rejected the step is undone, and the accepted ones run
        again with the next step.
        """
        accepted = len(drawn) - 1 if isinstance(drawn, list) else 0
        rejected = chunk.draft_length - accepted if chunk.draft_length else 0
        if rejected and self._cache.recurrent:
            return
        chunk.request.computed = chunk.end - rejected
        self._cache.commit(chunk.request.id, chunk.request.computed)

    def _push(self, drawn: dict[Chunk, Drawn]) -> list[str]:
        """Give the answers their tokens; returns the ids of the prompts that got one or failed."""
        owners = {chunk: self._answers[chunk.request] for chunk in drawn}
        touched = list(dict.fromkeys(request_id for request_id, _ in owners.values()))
        for answer in (answer for request_id in touched for answer in self._prompts[request_id].answers):
            answer.output.begin_step()
        for chunk, result in drawn.items():
            request_id, answer = owners[chunk]
            chunk.request.draft = None
            if isinstance(result, SamplingError):
                self._fail(request_id, result)
                continue
            for token in result:
                if not answer.output.finished:
                    answer.push(token.token_id, token.logprobs)
            if answer.output.finished:
                self._retire(answer)
        return touched

    def _fail(self, request_id: str, error: SamplingError) -> None:
        """End all answers of a prompt with an error."""
        prompt = self._prompts[request_id]
        prompt.output.error = error
        for answer in prompt.answers:
            if not answer.output.finished:
                answer.finish("error")
                self._retire(answer)

    def _emit(self, request_id: str) -> RequestOutput:
        prompt = self._prompts[request_id]
        prompt.output.num_cached_tokens = prompt.answers[0].request.cached
        prompt.output.error = prompt.output.error or next((one.error for one in prompt.answers if one.error), None)
        if prompt.output.finished:
            del self._prompts[request_id]
        return prompt.output

    def _retire(self, answer: Answer) -> None:
        """Forget a finished answer's request; nothing happens when that was done already."""
        if self._answers.pop(answer.request, None) is not None:
            self._scheduler.finish(answer.request)
            self._speculation.finish(answer.request)

    def _answer(
        self,
        id: str,
        index: int,
        tokens: list[int],
        params: SamplingParams,
        priority: int,
        reader: OutputReader | None,
    ) -> Answer:
        stops = TokenStops(params, self._eos_token_ids, self.max_model_len)
        sampling = self._sampler.state(id, params, tokens, index=index, eos_token_ids=self._eos_token_ids)
        return Answer(Request(id, tokens, params, sampling, priority), index, self.tokenizer, stops, reader)

    def _record_prompt_logprobs(self, spans: list[LogitSpan], logits: Logits) -> None:
        for span in spans:
            request = span.chunk.request
            request_id, answer = self._answers[request]
            wanted = request.params.prompt_logprobs
            recorded = self._prompts[request_id].output.prompt_logprobs
            if wanted is None or recorded is None or answer.output.index != 0:
                continue
            first = span.chunk.end - (span.end - span.start)
            for row in range(span.start, span.end):
                following = first + (row - span.start) + 1
                if len(recorded) <= following < request.prompt_length:
                    token = request.prompt_token_ids[following]
                    recorded.append(top_logprobs(logits[row], token, wanted, self.tokenizer, self._logit_ops))

    def _check(self, request_id: str, tokens: list[int], params: SamplingParams) -> None:
        if request_id in self._prompts:
            raise RequestError(f"request id {request_id!r} is in use by an unfinished request")
        if not tokens:
            raise RequestError("the prompt is empty; give at least one token")
        if len(tokens) >= self.max_model_len:
            raise RequestError(
                f"the prompt has {len(tokens)} tokens and the context holds {self.max_model_len}, so no room is left "
                "for an answer; shorten the prompt or load the model with a larger max_model_len"
            )
        outside = next((token for token in tokens if not 0 <= token < self.vocab_size), None)
        if outside is not None:
            raise RequestError(f"prompt token {outside} is outside the vocabulary of {self.vocab_size} tokens")
        params.check_model(self.vocab_size, self.config.max_logprobs)


def _rows(logits: Logits, indices: list[int]) -> Logits:
    """``logits[indices]``, without a copy where these are all rows in order."""
    return logits if indices == list(range(len(logits))) else logits[indices]
