"""Output that is divided into blocks of known kinds, each between markers of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .call_syntax import CallSyntax
from .context import ParserContext, ParserFactory
from .engine import MarkedText, ToolEngine
from .events import Parser, Reasoning


@dataclass(frozen=True, kw_only=True)
class Block:
    """A kind of block.

    Attributes:
        open: markers that begin it.
        close: markers that end it. A marker that begins another block ends it too.
        holds: what becomes of its text: content, content together with the marker that began it, reasoning, left out,
            or read by a format.
        drops_header: what stands between the marker of a header and that of the block is left out, else it is text.
    """

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    holds: Literal["content", "marked content", "reasoning", "nothing"] | ParserFactory = "content"
    drops_header: bool = False


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Format of blocks. One parser finds reasoning and calls.

    Attributes:
        blocks: the kinds of blocks.
        begins: the kind that the output begins in, by its place in `blocks`, where its first marker is in the prompt.
            The prompt decides first: if it ends with a marker that begins a block, the output begins in that block.
        header: marker that may stand before those that begin blocks. The prompt may end with it.
        drop: further markers to leave out.
        strip: see ToolEngine.
        syntax: a call as the models write it, for a forced tool choice.
    """

    blocks: tuple[Block, ...]
    begins: int | None = None
    header: str = ""
    drop: tuple[str, ...] = ()
    strip: bool = False
    handles_reasoning: bool = True
    syntax: CallSyntax | None = None

    def __call__(self, context: ParserContext) -> BlocksParser:
        return BlocksParser(self, context)


class BlocksParser(ToolEngine):
    """Parser of the format `Blocks`."""

    def __init__(self, form: Blocks, context: ParserContext) -> None:
        super().__init__(strip=form.strip)
        self._form = form
        self._context = context
        self._kinds = {marker: block for block in form.blocks for marker in block.open}
        always = (*self._kinds, form.header, *form.drop)
        self._between = MarkedText(*always, *(marker for block in form.blocks for marker in block.close))
        self._ends = {id(block): MarkedText(*always, *block.close) for block in form.blocks}
        self._block: Block | None = None
        self._inner: Parser | None = None
        self._header: list[str] = []
        prompt = context.prompt.rstrip()
        self._in_header = bool(form.header) and prompt.endswith(form.header)
        prompted = [block for marker, block in self._kinds.items() if prompt.endswith(marker)]
        if prompted:
            self._enter(prompted[0])
        elif form.begins is not None:
            self._enter(form.blocks[form.begins])

    def start(self) -> bool:
        """Between blocks or in one."""
        text, marker = (self._between if self._block is None else self._ends[id(self._block)]).read(self)
        if self._in_header:
            self._header.append(text)
        else:
            self._text(text)
        if marker is None:
            return False
        block = self._kinds.get(marker)
        if self._in_header:
            self._end_header(dropped=block is not None and block.drops_header)
        if marker == self._form.header:
            self._in_header = True
        elif marker not in self._form.drop:
            self._leave()
            if block is not None:
                self._enter(block, marker)
        return True

    def _end_header(self, *, dropped: bool) -> None:
        text, self._header = "".join(self._header), []
        self._in_header = False
        if not dropped:
            self._text(text)

    def _enter(self, block: Block, marker: str = "") -> None:
        self._block = block
        if callable(block.holds):
            self._inner = block.holds(self._context)
        elif block.holds == "marked content":
            self.content(marker)

    def _leave(self) -> None:
        if self._inner is not None:
            self.pass_on(self._inner.finish())
            self._inner = None
        self._block = None
        self.drop_space()

    def _text(self, text: str) -> None:
        if not text:
            return
        if self._inner is not None:
            self.pass_on(self._inner.feed(text))
        elif self._block is None or self._block.holds in ("content", "marked content"):
            self.content(text)
        elif self._block.holds == "reasoning":
            self.report(Reasoning(text))

    def close(self) -> None:
        self._end_header(dropped=False)
        if self._inner is not None:
            self.pass_on(self._inner.finish())
            self._inner = None
