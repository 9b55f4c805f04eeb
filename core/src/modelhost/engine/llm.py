"""Offline generation: :class:`LLM`, with vLLM's method names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from modelhost.api import ModelHostError, RequestError
from modelhost.plugins import Registry

from .chat import GenerationRequest
from .config import EngineConfig
from .model import ServedModel
from .outputs import RequestOutput, snapshot
from .prompts import Message, PromptInput, as_prompts
from .sampling_params import SamplingParams

Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """A model that generates text.

    Args:
        model: a directory, a ``.gguf`` file, or a Hugging Face id.
        tokenizer: directory or ``.gguf`` file of another tokenizer than the model's own.
        chat_template: Jinja text that replaces the checkpoint's.
        registry: the plugins; those installed by default.
        settings: fields of :class:`~modelhost.engine.config.EngineConfig`: ``backend``, ``device``, ``dtype``,
            ``max_model_len``, ``max_num_seqs``, ``seed`` and others.

    Raises:
        ModelHostError: any of its subclasses, with what is wrong and what to do.
    """

    def __init__(
        self,
        model: str,
        *,
        tokenizer: str | None = None,
        chat_template: str | None = None,
        registry: Registry | None = None,
        **settings: Any,
    ) -> None:
        config = EngineConfig.parse(**settings)
        self.model = ServedModel(
            str(model), config, tokenizer=tokenizer, chat_template=chat_template, registry=registry
        )
        self._engine = self.model.engine
        self._outputs: dict[str, deque[RequestOutput]] = {}
        self._streamed: set[str] = set()

    def generate(
        self,
        prompts: PromptInput | Sequence[PromptInput],
        sampling_params: Params = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[RequestOutput]:
        """Continue every prompt.

        Args:
            prompts: one or many; text, token ids or mappings.
            sampling_params: for all, or one for each prompt; the checkpoint's defaults when ``None``.
            on_progress: called with the number of finished prompts and of all prompts, when it changes.

        Returns:
            one output for each prompt, in order.

        Raises:
            RequestError: a prompt or a parameter is not valid. Nothing is run then.
        """
        given, _ = as_prompts(prompts)
        tokenized = [self.model.tokenize(prompt) for prompt in given]
        params = self._params(sampling_params, len(tokenized))
        return self._run([GenerationRequest(*pair) for pair in zip(tokenized, params, strict=True)], on_progress)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: Params = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> list[RequestOutput]:
        """Answer one conversation or many.

        The outputs have ``reasoning``, ``content`` and ``tool_calls``, found by the parsers that were named or that fit
        the model.

        Args:
            messages: a list of messages, or a list of such lists.
            options: ``tools``, ``tool_choice``, ``parallel_tool_calls``, ``include_reasoning`` and
                ``chat_template_kwargs``, see :class:`~modelhost.engine.chat.ChatOptions`; and
                ``add_generation_prompt``, ``continue_final_message`` and ``chat_template``.

        Raises:
            RequestError: messages, tools, an option or a parameter is not valid; the text names its path.
            UnsupportedError: tools were given and no parser finds their calls, or the tool choice needs a grammar.
            PluginError: several parsers fit the model, or one is broken.
        """
        many = bool(messages) and not isinstance(messages[0], Mapping) and not isinstance(messages[0], str)
        conversations = cast(Sequence[Sequence[Message]], messages if many else [messages])
        params = self._params(sampling_params, len(conversations))
        pairs = zip(conversations, params, strict=True)
        return self._run([self.model.chat(chat, one, **options) for chat, one in pairs], on_progress)

    def stream(
        self,
        prompt: PromptInput | None = None,
        sampling_params: SamplingParams | None = None,
        *,
        messages: Sequence[Message] | None = None,
        **options: Any,
    ) -> Iterator[RequestOutput]:
        """Continue one prompt, or answer one conversation, and give the output after each token.

        What is new is in ``delta`` of each answer; in a chat, whose options are those of :meth:`chat`, in ``events``.
        Closing the iterator stops the request. Several streams can be open at once: their requests share the steps.
        """
        if (prompt is None) == (messages is None):
            raise RequestError("give either a prompt or messages")
        if messages is not None:
            request = self.model.chat(messages, sampling_params, **options)
        elif options:
            raise RequestError(f"{', '.join(options)}: chat options need messages, and a prompt was given")
        else:
            params = sampling_params or self.model.default_sampling_params()
            request = GenerationRequest(self.model.tokenize(cast(PromptInput, prompt)), params)
        [request_id] = self._submit([request], streamed=True)
        try:
            for output in self._follow(request_id):
                if output.error is not None:
                    raise output.error
                yield output
        finally:
            self._forget([request_id])

    def get_tokenizer(self) -> Any:
        """The tokenizer, ``None`` when the checkpoint has none."""
        return self.model.tokenizer

    def _run(
        self,
        requests: list[GenerationRequest],
        on_progress: Callable[[int, int], None] | None,
    ) -> list[RequestOutput]:
        ids = self._submit(requests)
        finished: dict[str, RequestOutput] = {}
        try:
            while len(finished) < len(ids):
                self._step()
                done = {id: output for id in ids for output in self._taken(id)}
                finished |= done
                if done and on_progress is not None:
                    on_progress(len(finished), len(ids))
        finally:
            self._forget(ids)
        outputs = [finished[request_id] for request_id in ids]
        for output in outputs:
            if output.error is not None:
                raise output.error
        return outputs

    def _follow(self, request_id: str) -> Iterator[RequestOutput]:
        """The outputs of a request, each as soon as it is there, up to the last."""
        finished = False
        while not finished:
            for output in self._taken(request_id):
                finished = output.finished
                yield output
            if not finished:
                self._step()

    def _step(self) -> None:
        """Run a step and keep what the calls that wait want: all outputs of a stream, and the last of any request."""
        try:
            for output in self._engine.step():
                waiting = self._outputs.get(output.request_id)
                if waiting is not None and output.finished:
                    waiting.append(output)
                elif waiting is not None and output.request_id in self._streamed:
                    waiting.append(snapshot(output))
        except BaseException:
            self._outputs.clear()  # the engine has ended all requests
            raise

    def _taken(self, request_id: str) -> Iterator[RequestOutput]:
        """The outputs of a request that were not taken yet.

        Raises:
            ModelHostError: an error or an interrupt in another call has ended the request.
        """
        outputs = self._outputs.get(request_id)
        if outputs is None:
            raise ModelHostError(f"{request_id} was ended by an error or an interrupt in another call; ask again")
        while outputs:
            yield outputs.popleft()

    def _forget(self, ids: Sequence[str]) -> None:
        self._streamed.difference_update(ids)
        for request_id in ids:
            self._engine.abort(request_id)
            self._outputs.pop(request_id, None)

    def _submit(self, requests: list[GenerationRequest], *, streamed: bool = False) -> list[str]:
        ids: list[str] = []
        try:
            for request in requests:
                request_id, prompt = self.model.next_id(), request.prompt
                self._engine.add_request(
                    request_id, prompt.token_ids, request.params, prompt=prompt.text, readers=request.readers
                )
                self._outputs[request_id] = deque()
                ids.append(request_id)
        except BaseException:
            self._forget(ids)
            raise
        if streamed:
            self._streamed.update(ids)
        return ids

    def _params(self, given: Params, count: int) -> list[SamplingParams]:
        if given is None:
            return [self.model.default_sampling_params()] * count
        if isinstance(given, SamplingParams):
            return [given] * count
        if len(given) != count:
            raise RequestError(f"{len(given)} sampling parameters were given for {count} prompts")
        return list(given)
