"""Model configurations: validated fields, read from a Hugging Face config.json or from GGUF metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from modelhost.graph.ops.elementwise import Activation

from .errors import ConfigError
from .rope import RopeParameters
from .rope_fields import rope_from_gguf, rope_from_huggingface, rope_gguf_paths, rope_huggingface_paths
from .weight import Weight

__all__ = [
    "CheckpointInfo",
    "DecoderConfig",
    "LayerType",
    "MixedAttentionConfig",
    "ModelConfig",
    "PositiveFloat",
    "PositiveInt",
]

LayerType = Literal["full_attention", "sliding_attention"]
_OF_TOP_LEVEL = ("tie_word_embeddings",)
_ACTIVATION_NAMES = {"gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "swish": "silu"}


class CheckpointInfo(Protocol):
    """The part of a checkpoint that a configuration may look at."""

    @property
    def architecture(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    def __contains__(self, name: str) -> bool: ...
    def shape_of(self, name: str) -> tuple[int, ...]: ...
    def weight(self, name: str) -> Weight: ...


class ModelConfig(BaseModel):
    """Base of all configurations. Unknown fields are ignored, known ones are checked.

    Attributes:
        gguf_fields: for each field the metadata key, without the architecture's prefix, that holds it in GGUF files.
        derived_fields: for each required field that may be left out the fields that it derives from.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())
    gguf_fields: ClassVar[Mapping[str, str]] = {}
    derived_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Check fields against one another. Families extend it.

        Raises:
            ValueError: they do not fit; the text says why and becomes part of a :class:`ConfigError`.
        """

    @classmethod
    def parse(cls, fields: Mapping[str, Any], where: str, paths: Mapping[str, str] | None = None) -> Self:
        """Validate ``fields``.

        Args:
            where: the file, for the error.
            paths: where the file states a field, when that is not under the field's own name.

        Raises:
            ConfigError: names ``where``, and the path and value of every field that is wrong.
        """
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            lines = [_line(problem, paths or {}) for problem in cls._causes(error)]
            kind = cls.__name__.removesuffix("Config")
            raise ConfigError(f"{where} does not describe a {kind} model:\n" + "\n".join(lines)) from None

    @classmethod
    def _causes(cls, error: ValidationError) -> list[Any]:
        """The problems without those that fields have only because others, which they derive from, are wrong."""
        problems: list[Any] = list(error.errors())
        wrong = {problem["loc"][0] for problem in problems if problem["loc"]}
        return [
            problem
            for problem in problems
            if problem["type"] != "missing" or wrong.isdisjoint(cls.derived_fields.get(problem["loc"][0], ()))
        ]

    @classmethod
    def from_huggingface(cls, info: CheckpointInfo, where: str) -> Self:
        """From the dictionary of a config.json; a nested ``text_config`` is taken when it states sizes.

        Whether the embeddings are tied is read from the top level where that says it, as transformers does.
        """
        raw, nested = info.config, info.config.get("text_config")
        if not isinstance(nested, Mapping) or "hidden_size" not in nested:
            return cls.parse(cls.huggingface_fields(raw), where, cls.huggingface_paths(raw))
        flat = {**raw, **nested, **{name: raw[name] for name in _OF_TOP_LEVEL if name in raw}}
        paths = {name: f"text_config.{name}" for name in {*cls.model_fields, *nested} - {*_OF_TOP_LEVEL}}
        paths |= {field: f"text_config.{path}" for field, path in cls.huggingface_paths(flat).items()}
        return cls.parse(cls.huggingface_fields(flat), where, paths)

    @classmethod
    def from_gguf(cls, info: CheckpointInfo, where: str) -> Self:
        """From the metadata of a GGUF file, with what the presence of tensors tells."""
        return cls.parse(cls.gguf_values(info), where, cls.gguf_paths(info.architecture))

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Fields as this class names them. Families override it where the checkpoint's form differs."""
        return dict(raw)

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        """Where the config.json states fields that :meth:`huggingface_fields` renamed, for errors."""
        return {}

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        """Fields that GGUF metadata holds. Families override it to add what the file leaves out."""
        prefix = info.architecture
        keys = {field: f"{prefix}.{key}" for field, key in cls.gguf_fields.items()}
        return {field: info.config[key] for field, key in keys.items() if key in info.config}

    @classmethod
    def gguf_paths(cls, architecture: str) -> dict[str, str]:
        """The metadata keys of fields, for errors."""
        return {field: f"{architecture}.{key}" for field, key in cls.gguf_fields.items()}


def _line(problem: Any, paths: Mapping[str, str]) -> str:
    value, message = problem.get("input"), problem["msg"].removeprefix("Value error, ")
    given = "" if problem["type"] == "missing" or isinstance(value, Mapping) else f", got {value!r}"
    return f"  {_path('.'.join(map(str, problem['loc'])), paths)}: {message}{given}"


def _path(field: str, paths: Mapping[str, str]) -> str:
    """``field`` with its longest prefix that ``paths`` knows replaced."""
    parts = field.split(".") if field else []
    for end in range(len(parts), 0, -1):
        known = paths.get(".".join(parts[:end]))
        if known is not None:
            return ".".join([known, *parts[end:]])
    return field or "(model)"


class DecoderConfig(ModelConfig):
    """A decoder with attention, a gated MLP, RMS norms and rotary positions."""

    gguf_fields: ClassVar[Mapping[str, str]] = {
        "vocab_size": "vocab_size",
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "num_hidden_layers": "block_count",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "head_dim": "attention.key_length",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "max_position_embeddings": "context_length",
        "sliding_window": "attention.sliding_window",
    }

    derived_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "num_key_value_heads": ("num_attention_heads",),
        "head_dim": ("hidden_size", "num_attention_heads"),
    }

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    hidden_act: Activation = "silu"
    rms_norm_eps: float = Field(default=1e-6, gt=0)
    max_position_embeddings: PositiveInt = 2048
    rope_parameters: RopeParameters = RopeParameters()
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: PositiveInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: dict[str, Any]) -> dict[str, Any]:
        absent_when_null = DecoderConfig.model_fields.keys() - {"sliding_window"}
        fields = {name: value for name, value in fields.items() if value is not None or name not in absent_when_null}
        if "num_attention_heads" in fields:
            fields.setdefault("num_key_value_heads", fields["num_attention_heads"])
        if "head_dim" not in fields and cls.model_fields["head_dim"].is_required():
            fields |= _head_dim(fields.get("hidden_size"), fields.get("num_attention_heads"))
        activation = fields.get("hidden_act")
        if isinstance(activation, str):
            fields["hidden_act"] = _ACTIVATION_NAMES.get(activation, activation)
        return fields

    def check(self) -> None:
        super().check()
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        self.rope_parameters.rotated(self.head_dim)

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {**raw, "rope_parameters": rope_from_huggingface(raw)}

    @classmethod
    def huggingface_paths(cls, raw: Mapping[str, Any]) -> dict[str, str]:
        return rope_huggingface_paths(raw)

    @classmethod
    def gguf_values(cls, info: CheckpointInfo) -> dict[str, Any]:
        fields = super().gguf_values(info)
        if "vocab_size" not in fields and "token_embd.weight" in info:
            fields["vocab_size"] = info.shape_of("token_embd.weight")[0]
        heads, hidden = fields.get("num_attention_heads"), fields.get("hidden_size")
        if "head_dim" not in fields and heads and hidden and hidden % heads == 0:
            fields["head_dim"] = hidden // heads
        fields["tie_word_embeddings"] = "output.weight" not in info
        fields["attention_bias"] = "blk.0.attn_q.bias" in info
        fields["mlp_bias"] = "blk.0.ffn_gate.bias" in info
        fields["rope_parameters"] = rope_from_gguf(info, fields.get("head_dim"))
        return fields

    @classmethod
    def gguf_paths(cls, architecture: str) -> dict[str, str]:
        return super().gguf_paths(architecture) | rope_gguf_paths(architecture)


def _head_dim(hidden: object, heads: object) -> dict[str, int]:
    if not isinstance(hidden, int) or not isinstance(heads, int) or hidden < 1 or heads < 1:
        return {}
    if hidden % heads:
        raise ValueError(
            f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}, and head_dim is not given"
        )
    return {"head_dim": hidden // heads}


class MixedAttentionConfig(DecoderConfig):
    """A decoder in which some layers see all tokens and others a sliding window.

    Attributes:
        layer_types: the kind of each layer; ``None`` where the family's rule decides.
    """

    layer_types: tuple[LayerType, ...] | None = None

    def check(self) -> None:
        super().check()
        if self.layer_types is None:
            return
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, num_hidden_layers is {self.num_hidden_layers}"
            )
        if self.sliding_window is None and "sliding_attention" in self.layer_types:
            raise ValueError("layer_types has sliding_attention layers, but no sliding_window is in use")

    def derived_layer_type(self, layer: int) -> LayerType:
        """The kind of a layer when ``layer_types`` is not given and there is a window. Families override it."""
        return "full_attention"

    def layer_type(self, layer: int) -> LayerType:
        """The kind of a layer, counted from 0."""
        if self.layer_types is not None:
            return self.layer_types[layer]
        return "full_attention" if self.sliding_window is None else self.derived_layer_type(layer)

    def window(self, layer: int) -> int | None:
        """Tokens that a query of this layer sees, itself included; ``None`` means all."""
        return self.sliding_window if self.layer_type(layer) == "sliding_attention" else None
