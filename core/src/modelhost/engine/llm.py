"""Offline generation: :class:`LLM`, with vLLM's method names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from modelhost.api import RequestError
from modelhost.plugins import Registry

from .chat import GenerationRequest
from .config import EngineConfig
from .model import ServedModel
from .outputs import RequestOutput
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
        Closing the iterator stops the request.
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
        [request_id] = self._submit([request])
        engine = self.model.engine
        try:
            while engine.busy:
                for output in engine.step():
                    if output.error is not None:
                        raise output.error
                    yield output
        finally:
            engine.abort(request_id)

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
        engine = self.model.engine
        try:
            while len(finished) < len(ids):
                done = [output for output in engine.step() if output.finished]
                finished.update((output.request_id, output) for output in done)
                if done and on_progress is not None:
                    on_progress(len(finished), len(ids))
        finally:
            for request_id in ids:
                engine.abort(request_id)
        outputs = [finished[request_id] for request_id in ids]
        for output in outputs:
            if output.error is not None:
                raise output.error
        return outputs

    def _submit(self, requests: list[GenerationRequest]) -> list[str]:
        ids: list[str] = []
        try:
            for request in requests:
                request_id, prompt = self.model.next_id(), request.prompt
                self.model.engine.add_request(
                    request_id, prompt.token_ids, request.params, prompt=prompt.text, readers=request.readers
                )
                ids.append(request_id)
        except BaseException:
            for request_id in ids:
                self.model.engine.abort(request_id)
            raise
        return ids

    def _params(self, given: Params, count: int) -> list[SamplingParams]:
        if given is None:
            return [self.model.default_sampling_params()] * count
        if isinstance(given, SamplingParams):
            return [given] * count
        if len(given) != count:
            raise RequestError(f"{len(given)} sampling parameters were given for {count} prompts")
        return list(given)
