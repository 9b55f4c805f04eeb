"""``modelhost tokenize``: a text as the model sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import JsonFlag, ModelArgument
from .standard_input import read_input
from .terminal import print_json, print_line

if TYPE_CHECKING:
    from modelhost.text.tokenizer import Tokenizer

TextArgument = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="What to tokenize; standard input without it", show_default=False),
]
IdsFlag = Annotated[bool, typer.Option("--ids", help="Print the ids only, as a JSON list")]
NoSpecialFlag = Annotated[
    bool, typer.Option("--no-special", help="Leave out the begin and end tokens that the tokenizer adds")
]


def tokenize(
    model: ModelArgument,
    text: TextArgument = None,
    ids: IdsFlag = False,
    json: JsonFlag = False,
    no_special: NoSpecialFlag = False,
) -> int:
    """Show the ids and the pieces of a text's tokens. The model's weights are not read."""
    if ids and json:
        raise typer.BadParameter("--ids and --json exclude each other")
    tokenizer = open_tokenizer(model)
    token_ids = tokenizer.encode(read_input() if text is None else text, add_special_tokens=not no_special)
    if ids:
        print_line(str(token_ids))
    elif json:
        pieces = [piece(tokenizer, token_id).decode("utf-8", "backslashreplace") for token_id in token_ids]
        print_json({"count": len(token_ids), "ids": token_ids, "pieces": pieces})
    else:
        width = len(str(max(token_ids, default=0)))
        for token_id in token_ids:
            print_line(f"{token_id:>{width}}  {_shown(piece(tokenizer, token_id))}")
    return 0


def open_tokenizer(model: str) -> Tokenizer:
    """The tokenizer of a checkpoint, whose weights need not be there."""
    from modelhost.hub import resolve
    from modelhost.text.tokenizer import Tokenizer

    path = resolve(model)
    if path.is_dir() and (path / "tokenizer.json").exists():
        return Tokenizer.from_directory(path)
    from modelhost.weights.encoding_table import EncodingTable
    from modelhost.weights.open import open_checkpoint

    with open_checkpoint(path, EncodingTable(())) as checkpoint:
        if checkpoint.format == "gguf":
            return Tokenizer.from_gguf(checkpoint.config)
    return Tokenizer.from_directory(path)


def piece(tokenizer: Tokenizer, token_id: int) -> bytes:
    """The bytes that a token stands for; nothing for a place in the vocabulary that holds no token."""
    return tokenizer.token_bytes(token_id) or b""


def _shown(piece: bytes) -> str:
    """A piece in quotes; as bytes when it is not text by itself."""
    try:
        return repr(piece.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(piece)
