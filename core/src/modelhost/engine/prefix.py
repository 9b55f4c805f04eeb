"""Hashes of a sequence's prefixes, block by block."""

from __future__ import annotations

from array import array
from hashlib import blake2b

from .request import Request


class PrefixHashes:
    """The hash of every whole block of one sequence, each over all tokens up to the block's end.

    Args:
        request: the sequence.
        block_size: tokens in a block.
        salt: what else the cached values depend on.
    """

    def __init__(self, request: Request, block_size: int, salt: bytes = b"") -> None:
        self._request = request
        self._block_size = block_size
        self._hashes: list[bytes] = []
        self._salt = salt

    @property
    def prompt_length(self) -> int:
        """Tokens of the sequence's prompt."""
        return self._request.prompt_length

    def __getitem__(self, block: int) -> bytes:
        """The hash of the prefix that ends with block number ``block``, which is whole."""
        while len(self._hashes) <= block:
            start = len(self._hashes) * self._block_size
            tokens = array("q", self._request.tokens(start, start + self._block_size))
            parent = self._hashes[-1] if self._hashes else self._salt
            self._hashes.append(blake2b(parent + tokens.tobytes(), digest_size=16).digest())
        return self._hashes[block]
