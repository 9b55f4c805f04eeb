"""Asynchronous streaming generation: the engine runs in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from modelhost.api import ModelHostError, RequestError
from modelhost.plugins import Registry

from .chat import GenerationRequest
from .config import EngineConfig
from .model import ServedModel
from .outputs import RequestOutput, snapshot
from .prompts import Message, PromptInput
from .sampling_params import SamplingParams

_Item = RequestOutput | BaseException


class AsyncLLM:
    """Serves many concurrent requests; arguments as :class:`~modelhost.LLM`.

    Requests of all callers share the engine's steps. Use it as an asynchronous context manager, or call
    :meth:`shutdown`.
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
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._streams: dict[str, Callable[[_Item], None]] = {}
        self._lock = threading.Lock()
        self._stopped: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="modelhost-engine", daemon=True)
        self._thread.start()

    async def generate(
        self,
        prompt: PromptInput,
        sampling_params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """Continue a prompt; gives the output after each token. Leaving the iterator stops the request.

        Raises:
            RequestError: the prompt or a parameter is not valid.
            ModelHostError: the engine stopped.
        """
        params = sampling_params or self.model.default_sampling_params()
        request = GenerationRequest(self.model.tokenize(prompt), params)
        async for output in self._follow(request, request_id, priority):
            yield output

    async def chat(
        self,
        messages: Sequence[Message],
        sampling_params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        priority: int = 0,
        **options: Any,
    ) -> AsyncIterator[RequestOutput]:
        """Answer a conversation; options as :meth:`modelhost.LLM.chat`, otherwise as :meth:`generate`."""
        request = self.model.chat(messages, sampling_params, **options)
        async for output in self._follow(request, request_id, priority):
            yield output

    async def abort(self, request_id: str) -> None:
        """Stop a request; its iterator ends with ``finish_reason`` ``"abort"``."""
        self._command(lambda: self._abort(request_id))

    def shutdown(self) -> None:
        """Stop the engine; unfinished requests end with an error."""
        self._command(None)
        self._thread.join()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.shutdown)

    async def _follow(
        self, request: GenerationRequest, request_id: str | None, priority: int
    ) -> AsyncIterator[RequestOutput]:
        request_id = request_id or self.model.next_id()
        items: asyncio.Queue[_Item] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def deliver(item: _Item) -> None:
            loop.call_soon_threadsafe(items.put_nowait, item)

        if not self._command(lambda: self._submit(request_id, request, priority, deliver)):
            raise ModelHostError(f"the engine has stopped ({self._stopped}); create a new AsyncLLM")
        finished = False
        try:
            while not finished:
                item = await items.get()
                if isinstance(item, BaseException):
                    finished = True
                    raise item
                finished = item.finished
                if item.error is not None:
                    raise item.error
                yield item
        finally:
            if not finished:
                self._command(lambda: self._abort(request_id))

    def _command(self, command: Callable[[], None] | None) -> bool:
        """Ask the engine's thread for something; false when it has stopped."""
        with self._lock:
            if self._stopped is None:
                self._commands.put(command)
            return self._stopped is None

    def _submit(
        self,
        request_id: str,
        request: GenerationRequest,
        priority: int,
        deliver: Callable[[_Item], None],
    ) -> None:
        try:
            self._engine.add_request(
                request_id,
                request.prompt.token_ids,
                request.params,
                prompt=request.prompt.text,
                priority=priority,
                readers=request.readers,
            )
        except RequestError as error:
            deliver(error)
        else:
            self._streams[request_id] = deliver

    def _abort(self, request_id: str) -> None:
        output = self._engine.abort(request_id)
        deliver = self._streams.pop(request_id, None)
        if output is not None and deliver is not None:
            deliver(snapshot(output))

    def _loop(self) -> None:
        error: BaseException = ModelHostError("the engine was shut down before the request finished")
        try:
            while self._take_commands():
                for output in self._engine.step():
                    self._publish(output)
        except BaseException as failure:  # the thread must not die without telling those who wait
            error = failure
        self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """Refuse further commands and tell everybody who waits."""
        with self._lock:
            self._stopped = error
        while not self._commands.empty():
            command = self._commands.get()
            if command is not None:
                command()
        for deliver in self._streams.values():
            deliver(error)
        self._streams.clear()

    def _take_commands(self) -> bool:
        """Carry out what was asked for; waits when there is nothing to run. False when the engine is to stop."""
        while not self._engine.busy or not self._commands.empty():
            command = self._commands.get()
            if command is None:
                return False
            command()
        return True

    def _publish(self, output: RequestOutput) -> None:
        self._streams[output.request_id](snapshot(output))
        if output.finished:
            del self._streams[output.request_id]
