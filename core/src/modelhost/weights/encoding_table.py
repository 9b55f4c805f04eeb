"""Finding the encoding of a tensor by its number, dtype name or id, and its decoder on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelhost.api import Encoding, PluginError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WHAT_TO_DO = "use a file in another format, or install a plugin that provides this encoding"


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoder of an encoding, imported when it is first called; picklable."""

    encoding: Encoding

    def __call__(self, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Decode ``uint8[..., bytes]`` to ``float32[..., values]``.

        Raises:
            PluginError: the record's target cannot be imported or returns another shape or dtype.
        """
        values = self._function()(blocks)
        shape = (*blocks.shape[:-1], blocks.shape[-1] // self.encoding.block_bytes * self.encoding.block_values)
        if values.shape != shape or values.dtype != "float32":
            raise PluginError(
                f"encoding {self.encoding.id!r}: {self.encoding.target} must return float32 of shape {shape}, "
                f"got {values.dtype} of shape {values.shape}"
            )
        return values

    def _function(self) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]:
        module, _, path = self.encoding.target.partition(":")
        try:
            target: Any = importlib.import_module(module)
            for name in path.split("."):
                target = getattr(target, name)
        except (ImportError, AttributeError) as error:
            raise PluginError(
                f"encoding {self.encoding.id!r}: cannot import {self.encoding.target}: {error}"
            ) from error
        return target  # type: ignore[no-any-return]


class EncodingTable:
    """The installed encodings, by id, GGUF type number and safetensors dtype name.

    Raises:
        PluginError: on construction, when two records claim the same id, number or dtype name.
    """

    def __init__(self, records: Iterable[Encoding]) -> None:
        self._ids: dict[str, Encoding] = {}
        self._gguf_types: dict[int, Encoding] = {}
        self._safetensors_dtypes: dict[str, Encoding] = {}
        for record in records:
            _claim(self._ids, record.id, "id", record)
            if record.gguf_type is not None:
                _claim(self._gguf_types, record.gguf_type, "GGUF type", record)
            if record.safetensors_dtype is not None:
                _claim(self._safetensors_dtypes, record.safetensors_dtype, "safetensors dtype", record)

    def by_id(self, id: str, context: str) -> Encoding:
        """The record with this id. ``context`` names the tensor or setting that wants it, for the error.

        Raises:
            UnsupportedError: no installed encoding has this id.
        """
        return _found(self._ids.get(id), context, f"encoding {id!r}")

    def by_gguf_type(self, number: int, context: str) -> Encoding:
        """The record that reads this GGUF tensor type.

        Raises:
            UnsupportedError: no installed encoding reads it.
        """
        return _found(self._gguf_types.get(number), context, f"GGUF type {gguf_type_label(number)}")

    def by_safetensors_dtype(self, name: str, context: str) -> Encoding:
        """The record that reads this safetensors dtype.

        Raises:
            UnsupportedError: no installed encoding reads it.
        """
        return _found(self._safetensors_dtypes.get(name), context, f"safetensors dtype {name!r}")

    def find_gguf_type(self, number: int) -> Encoding | None:
        """The record that reads this GGUF tensor type, if one is installed."""
        return self._gguf_types.get(number)

    def find_safetensors_dtype(self, name: str) -> Encoding | None:
        """The record that reads this safetensors dtype, if one is installed."""
        return self._safetensors_dtypes.get(name)


_OTHER_GGUF_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    9: "Q8_1",
    15: "Q8_K",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
    41: "Q1_0",
}
"""Names of the ``ggml`` types that have no decoder in the ``gguf`` package: removed ones and those of activations."""


def gguf_type_label(number: int) -> str:
    """A GGUF tensor type as users know it, such as ``"41 (Q1_0)"``."""
    name = _OTHER_GGUF_TYPES.get(number)
    return f"{number} ({name})" if name else str(number)


def _claim(claims: dict[Any, Encoding], key: int | str, what: str, record: Encoding) -> None:
    other = claims.setdefault(key, record)
    if other is not record:
        raise PluginError(
            f"encodings {other.id!r} ({other.target}) and {record.id!r} ({record.target}) both claim {what} {key!r}"
        )


def _found(record: Encoding | None, context: str, what: str) -> Encoding:
    if record is None:
        raise UnsupportedError(f"{context} has {what}, which no installed encoding reads; {_WHAT_TO_DO}")
    return record
