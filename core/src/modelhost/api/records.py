"""The records that a plugin declares. Plain frozen data: nothing is imported to inspect one.

A record's ``target`` is ``"package.module:attribute"``. The host imports it when the record is selected.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from .errors import PluginError

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
TASKS = frozenset({"generate", "embed", "score", "classify", "transcribe", "generate_video"})
"""The tasks that an architecture can serve."""


@dataclass(frozen=True, slots=True)
class Record:
    """What every declaration has.

    Attributes:
        id: the name that users and checkpoints select it by; unique within its kind.
        target: ``"package.module:attribute"``, imported on selection.
        replaces: ``"distribution:id"`` of the record that this one may stand in for when the user opts in.
        settings: ``"package.module:Class"`` of a pydantic model that validates the plugin's settings.

    Raises:
        PluginError: on construction, when a field has a value that is not allowed.
    """

    kind: ClassVar[str] = "record"

    id: str
    target: str
    _: KW_ONLY
    replaces: str | None = None
    settings: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise PluginError(f"a {self.kind} record needs a non-empty string as id, got {self.id!r}")
        for field in ("target", "settings"):
            value = getattr(self, field)
            if value is not None and not (isinstance(value, str) and _TARGET.fullmatch(value)):
                wanted = '"package.module:attribute"'
                raise PluginError(f"{self.kind} {self.id!r}: {field} must look like {wanted}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Architecture(Record):
    """A model architecture. ``id`` is the name in ``architectures`` of a Hugging Face config.json.

    Attributes:
        gguf: values of ``general.architecture`` in GGUF files that this class reads.
        tasks: what it can serve, from :data:`TASKS`.
    """

    kind: ClassVar[str] = "architecture"

    gguf: tuple[str, ...] | str = ()
    tasks: tuple[str, ...] = ("generate",)

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if isinstance(self.gguf, str):
            object.__setattr__(self, "gguf", (self.gguf,))
        unknown = set(self.tasks) - TASKS
        if unknown or not self.tasks:
            raise PluginError(f"architecture {self.id!r}: tasks must be some of {sorted(TASKS)}, got {self.tasks!r}")


@dataclass(frozen=True, slots=True)
class Backend(Record):
    """A kernel backend.

    Attributes:
        devices: device names that it runs on, such as ``"cpu"`` or ``"cuda"``.
        dtypes: activation dtypes that it computes in; the first is the default.
        encodings: weight encodings that it computes on as they are; all others are dequantised at load.
        priority: rank among the backends whose hardware is present; the highest is chosen.
        probe: ``"package.module:function"`` that returns ``None`` when the backend can run here, else a sentence that
            says why not.
        fallback: used only by name, or with a warning when no other backend is usable.
    """

    kind: ClassVar[str] = "backend"

    devices: tuple[str, ...] = ("cpu",)
    dtypes: tuple[str, ...] = ("float32",)
    encodings: tuple[str, ...] = ()
    priority: int = 0
    probe: str | None = None
    fallback: bool = False

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.probe is not None and not _TARGET.fullmatch(self.probe):
            wanted = '"package.module:function"'
            raise PluginError(f"backend {self.id!r}: probe must look like {wanted}, got {self.probe!r}")
        if not self.devices or not self.dtypes:
            raise PluginError(f"backend {self.id!r}: devices and dtypes must each name at least one")


@dataclass(frozen=True, slots=True)
class Encoding(Record):
    """A storage format of weights. ``target`` is a function ``(blocks: uint8[..., bytes]) -> float32[..., values]``.

    Attributes:
        block_values: values in one block.
        block_bytes: bytes in one block.
        gguf_type: the tensor type number in GGUF files, if it has one.
        safetensors_dtype: the dtype name in safetensors files, if it has one.
    """

    kind: ClassVar[str] = "encoding"

    block_values: int = 1
    block_bytes: int = 4
    gguf_type: int | None = None
    safetensors_dtype: str | None = None

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if self.block_values < 1 or self.block_bytes < 1:
            raise PluginError(f"encoding {self.id!r}: block_values and block_bytes must be positive")


@dataclass(frozen=True, slots=True)
class ToolParser(Record):
    """An incremental parser of tool calls in generated text. ``target`` is a format, see ``modelhost.api.parsing``.

    Attributes:
        architectures: architectures whose models write the format, as in config.json.
        template: texts that a chat template holds when its model writes the format; all of them must be in it.
        markers: texts of the format that must be single tokens of the model's vocabulary.
        keep_special_tokens: the format's markers are special tokens, so the text must be decoded with them.
        models: the models that write the format, in words.
    """

    kind: ClassVar[str] = "tool parser"

    architectures: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    keep_special_tokens: bool = False
    models: str = ""

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        _check_texts(self, "architectures", "template", "markers")


@dataclass(frozen=True, slots=True)
class ReasoningParser(Record):
    """An incremental parser that separates reasoning from the answer. The fields are those of ``ToolParser``."""

    kind: ClassVar[str] = "reasoning parser"

    architectures: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    keep_special_tokens: bool = False
    models: str = ""

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        _check_texts(self, "architectures", "template", "markers")


@dataclass(frozen=True, slots=True)
class Speculator(Record):
    """A method that proposes tokens for the model to verify."""

    kind: ClassVar[str] = "speculator"


@dataclass(frozen=True, slots=True)
class KVConnector(Record):
    """Moves KV cache blocks to and from a store outside the engine."""

    kind: ClassVar[str] = "KV connector"


@dataclass(frozen=True, slots=True)
class LogitsProcessor(Record):
    """Changes logits before a token is sampled."""

    kind: ClassVar[str] = "logits processor"


@dataclass(frozen=True, slots=True)
class Grammar(Record):
    """Constrains generation to a formal grammar."""

    kind: ClassVar[str] = "grammar"


@dataclass(frozen=True, slots=True)
class Executor(Record):
    """Runs a compiled graph on one or more workers."""

    kind: ClassVar[str] = "executor"


@dataclass(frozen=True, slots=True)
class Endpoint(Record):
    """Adds HTTP routes to the server. Active only when the user names it."""

    kind: ClassVar[str] = "endpoint"


def _check_texts(record: Record, *fields: str) -> None:
    for field in fields:
        value = getattr(record, field)
        if not isinstance(value, tuple) or not all(isinstance(text, str) and text for text in value):
            raise PluginError(f"{record.kind} {record.id!r}: {field} must be a tuple of texts, got {value!r}")
