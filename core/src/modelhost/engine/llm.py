"""Offline generation: :class:`LLM`, with vLLM's method names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from modelhost.api import RequestError
from modelhost.plugins import Registry

from .config import EngineConfig
from .model import ServedModel
from .outputs import RequestOutput
from .prompts import Message, PromptInput, TokenizedPrompt, as_prompts
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
        return self._run([self.model.tokenize(prompt) for prompt in given], sampling_params, on_progress)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: Params = None,
        *,
        on_progress: Callable[[int, int], None] | None = None,
        **template: Any,
    ) -> list[RequestOutput]:
        """Answer one conversation or many.

        Args:
            messages: a list of messages, or a list of such lists.
            template: ``add_generation_prompt``, ``continue_final_message``, ``tools``, ``chat_template`` and
                ``chat_template_kwargs``.
        """
        many = bool(messages) and not isinstance(messages[0], Mapping) and not isinstance(messages[0], str)
        conversations = cast(Sequence[Sequence[Message]], messages if many else [messages])
        prompts = [self.model.render(conversation, **template) for conversation in conversations]
        return self._run(prompts, sampling_params, on_progress)

    def stream(
        self,
        prompt: PromptInput | None = None,
        sampling_params: SamplingParams | None = None,
        *,
        messages: Sequence[Message] | None = None,
        **template: Any,
    ) -> Iterator[RequestOutput]:
        """Continue one prompt, or answer one conversation, and give the output after each token.

        Closing the iterator stops the request.
        """
        if (prompt is None) == (messages is None):
            raise RequestError("give either a prompt or messages")
        tokens = (
            self.model.render(messages, **template)
            if messages is not None
            else self.model.tokenize(cast(PromptInput, prompt))
        )
        params = sampling_params or self.model.default_sampling_params()
        [request_id] = self._submit([tokens], [params])
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
        prompts: list[TokenizedPrompt],
        sampling_params: Params,
        on_progress: Callable[[int, int], None] | None,
    ) -> list[RequestOutput]:
        ids = self._submit(prompts, self._params(sampling_params, len(prompts)))
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

    def _submit(self, prompts: list[TokenizedPrompt], params: list[SamplingParams]) -> list[str]:
        ids: list[str] = []
        try:
            for prompt, one in zip(prompts, params, strict=True):
                request_id = self.model.next_id()
                self.model.engine.add_request(request_id, prompt.token_ids, one, prompt=prompt.text)
                ids.append(request_id)
        except RequestError:
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
