"""A checkpoint's tensors and configuration, whichever format it is stored in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from modelhost.api import CheckpointError, ConfigError, Encoding, WeightError
from modelhost.api.weight import Weight

from .encoding_table import Decoder, EncodingTable
from .entry import Entry

Format = Literal["safetensors", "gguf"]


class Checkpoint:
    """The tensors of a checkpoint, mapped and still encoded, with its configuration.

    Attributes:
        path: the file or directory it was opened from.
        format: ``"safetensors"`` or ``"gguf"``.
        config: config.json as a dict, or the GGUF metadata, decoded key by key on access.
        generation_config: default sampling settings under their Hugging Face names; empty when the checkpoint has none.
    """

    def __init__(
        self,
        path: Path,
        format: Format,
        config: Mapping[str, Any],
        generation_config: Mapping[str, Any],
        entries: Iterable[Entry],
        encodings: EncodingTable,
    ) -> None:
        self.path = path
        self.format = format
        self.config = config
        self.generation_config = generation_config
        self._entries = {entry.name: entry for entry in entries}
        self._encodings = encodings
        self._closed = False

    @property
    def architecture(self) -> str:
        """``architectures[0]`` of config.json, or ``general.architecture`` of a GGUF file.

        Raises:
            ConfigError: the field is missing or is not a name.
        """
        if self.format == "gguf":
            field, value = "general.architecture", self.config.get("general.architecture")
        else:
            field, names = "architectures", self.config.get("architectures")
            value = names[0] if isinstance(names, list) and names else names
        if not isinstance(value, str) or not value:
            where = "its metadata" if self.format == "gguf" else "config.json"
            raise ConfigError(
                f"{self.path}: the field {field!r} in {where} must name the model's architecture, got {value!r}. "
                "Use a checkpoint that states it, or add the field."
            )
        return value

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as encoded.

        Raises:
            UnsupportedError: a tensor has a type that no installed encoding reads, so its size is unknown.
        """
        for entry in self._entries.values():
            self._encoding(entry)
        return sum(entry.nbytes for entry in self._entries.values())

    def names(self) -> list[str]:
        """The tensors' names, in file order."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def shape_of(self, name: str) -> tuple[int, ...]:
        """A tensor's logical shape in row-major order, without touching its data.

        Raises:
            CheckpointError: the checkpoint is closed.
            WeightError: no tensor has this name.
        """
        return self._entry(name).shape

    def encoding_of(self, name: str) -> str:
        """The id of a tensor's encoding, without touching its data.

        Raises:
            CheckpointError: the checkpoint is closed.
            WeightError: no tensor has this name.
            UnsupportedError: no installed encoding reads its type.
        """
        return self._encoding(self._entry(name)).id

    def weight(self, name: str) -> Weight:
        """A tensor as a view into the mapped file.

        Raises:
            CheckpointError: the checkpoint is closed.
            WeightError: no tensor has this name.
            UnsupportedError: no installed encoding reads its type.
        """
        entry = self._entry(name)
        encoding = self._encoding(entry)
        row = entry.shape[-1] if entry.shape else 1
        blocks = entry.file.array[entry.start : entry.start + entry.nbytes]
        blocks = blocks.reshape(*entry.shape[:-1], row // encoding.block_values * encoding.block_bytes)
        return Weight(name, encoding.id, entry.shape, blocks, Decoder(encoding))

    def close(self) -> None:
        """Give up the mapped files. Each is unmapped when the last weight that views it is gone."""
        self._closed = True
        self._entries = {}

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, name: str) -> Entry:
        if self._closed:
            raise CheckpointError(
                f"{self.path}: tensor {name!r} was asked for after the checkpoint was closed. Open it again."
            )
        try:
            return self._entries[name]
        except KeyError:
            close = get_close_matches(name, self._entries, 3)
            hint = f" Close names: {', '.join(close)}." if close else ""
            raise WeightError(f"{self.path} has no tensor {name!r}.{hint}") from None

    def _encoding(self, entry: Entry) -> Encoding:
        if entry.encoding:
            return entry.encoding
        context = f"{entry.file.path}: tensor {entry.name!r}"
        if isinstance(entry.type, int):
            return self._encodings.by_gguf_type(entry.type, context)
        return self._encodings.by_safetensors_dtype(entry.type, context)
