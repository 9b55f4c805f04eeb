"""Output that is divided into blocks of known kinds, each between markers of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .context import ParserContext, ParserFactory
from .engine import MarkedText, ToolEngine
from .events import CallArguments, CallEnd, CallStart, Content, Event, Parser, Reasoning


@dataclass(frozen=True, kw_only=True)
class Block:
    """A kind of block.

    Attributes:
        open: markers that begin it.
        close: markers that end it. A marker that begins another block ends it too.
        holds: what becomes of its text: content, reasoning, left out, or read by a format of calls.
    """

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    holds: Literal["content", "reasoning", "nothing"] | ParserFactory = "content"


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Format of blocks. One parser finds reasoning and calls.

    Attributes:
        blocks: the kinds of blocks.
        begins: the kind that the output begins in, by its place in `blocks`, where its first marker is in the prompt.
            The prompt decides first: if it ends with a marker that begins a block, the output begins in that block.
        drop: further markers to leave out.
        strip: see ToolEngine.
    """

    blocks: tuple[Block, ...]
    begins: int | None = None
    drop: tuple[str, ...] = ()
    strip: bool = False
    handles_reasoning: bool = True

    def __call__(self, context: ParserContext) -> BlocksParser:
        return BlocksParser(self, context)


class BlocksParser(ToolEngine):
    """Parser of the format `Blocks`."""

    def __init__(self, form: Blocks, context: ParserContext) -> None:
        super().__init__(strip=form.strip)
        self._form = form
        self._context = context
        self._kinds = {marker: block for block in form.blocks for marker in block.open}
        opens = tuple(self._kinds)
        self._between = MarkedText(*opens, *form.drop, *(marker for block in form.blocks for marker in block.close))
        self._ends = {id(block): MarkedText(*opens, *form.drop, *block.close) for block in form.blocks}
        self._block: Block | None = None
        self._inner: Parser | None = None
        prompt = context.prompt.rstrip()
        prompted = [block for marker, block in self._kinds.items() if prompt.endswith(marker)]
        if prompted:
            self._enter(prompted[0])
        elif form.begins is not None:
            self._enter(form.blocks[form.begins])

    def start(self) -> bool:
        """Between blocks or in one."""
        text, marker = (self._between if self._block is None else self._ends[id(self._block)]).read(self)
        self._text(text)
        if marker is None:
            return False
        if marker in self._form.drop:
            return True
        self._leave()
        if marker in self._kinds:
            self._enter(self._kinds[marker])
        return True

    def _enter(self, block: Block) -> None:
        self._block = block
        if callable(block.holds):
            self._inner = block.holds(self._context)

    def _leave(self) -> None:
        if self._inner is not None:
            self._pass(self._inner.finish())
            self._inner = None
        self._block = None
        self.drop_space()

    def _text(self, text: str) -> None:
        if not text:
            return
        if self._inner is not None:
            self._pass(self._inner.feed(text))
        elif self._block is None or self._block.holds == "content":
            self.content(text)
        elif self._block.holds == "reasoning":
            self.report(Reasoning(text))

    def _pass(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case CallStart():
                    self.begin_call(event.name, event.id)
                case CallArguments():
                    self.arguments(event.text)
                case CallEnd():
                    self.end_call()
                case Content():
                    self.content(event.text)
                case Reasoning():
                    self.report(event)

    def close(self) -> None:
        if self._inner is not None:
            self._pass(self._inner.finish())
            self._inner = None
