"""What an ELF object of a 64-bit, little-endian machine needs from elsewhere. Source: System V ABI, gABI 4.1."""

from __future__ import annotations

import struct

AARCH64, X86_64 = 183, 62
"""Numbers of machines in the header."""
_SYMBOL_TABLE = 2
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


def machine_of(content: bytes) -> int:
    """The number of the machine that the object is for."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    return int.from_bytes(content[18:20], "little")


def undefined_symbols(content: bytes) -> set[str]:
    """Names that the object refers to and does not define."""
    start, entry_size, count = (
        struct.unpack_from(form, content, at)[0] for form, at in (("<Q", 40), ("<H", 58), ("<H", 60))
    )
    sections = [_SECTION.unpack_from(content, start + entry_size * index) for index in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[link][4]
        for place in range(offset + _SYMBOL.size, offset + size, _SYMBOL.size):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(content, place)
            if section == 0:
                end = content.index(b"\0", strings + name)
                names.add(content[strings + name : end].decode())
    return names
