"""What a model family is written with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.graph.tensor import DType, Parameter, State, Tensor

from .blocks import Embedding, Linear, RMSNorm
from .config import (
    CheckpointInfo,
    DecoderConfig,
    LayerType,
    MixedAttentionConfig,
    ModelConfig,
    PositiveFloat,
    PositiveInt,
)
from .latent_config import GGUF_LATENT_NAMES, IndexedAttentionConfig, LatentAttentionConfig, latent_pieces
from .module import Module
from .moe_config import GGUF_MOE_NAMES, MoEConfig
from .rope import RopeParameters, RotaryEmbedding
from .step import Step
from .weight import Pieces, Weight

__all__ = [
    "GGUF_DECODER_NAMES",
    "GGUF_LATENT_NAMES",
    "GGUF_MOE_NAMES",
    "CausalLM",
    "CheckpointInfo",
    "Decoder",
    "DecoderConfig",
    "DecoderLM",
    "Embedding",
    "IndexedAttentionConfig",
    "LatentAttentionConfig",
    "LayerType",
    "Linear",
    "MixedAttentionConfig",
    "MoEConfig",
    "ModelConfig",
    "Module",
    "Parameter",
    "Pieces",
    "PositiveFloat",
    "PositiveInt",
    "RopeParameters",
    "RotaryEmbedding",
    "State",
    "Step",
    "Tensor",
    "Transform",
    "Weight",
    "head",
    "latent_pieces",
    "trace",
]

Transform = Callable[[Weight], Weight]

GGUF_DECODER_NAMES: dict[str, str] = {
    "model.embed_tokens": "token_embd",
    "model.layers.{}.input_layernorm": "blk.{}.attn_norm",
    "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "model.layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "model.layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm",
    "model.layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm",
    "model.layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "model.layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "model.layers.{}.mlp.down_proj": "blk.{}.ffn_down",
    "model.norm": "output_norm",
    "lm_head": "output",
}
"""Module paths of a pre-norm decoder and its tensors' names in GGUF files, both without ``.weight`` or ``.bias``."""


class Decoder(Module):
    """Embedding, layers, final norm. Each layer is called with ``(x, step)``.

    Args:
        embedding_scale: multiplies the embeddings, first rounded to the dtype of activations.
    """

    def __init__(
        self,
        embed_tokens: Embedding,
        layers: Sequence[Callable[[Tensor, Step], Tensor]],
        norm: RMSNorm,
        *,
        embedding_scale: float = 1.0,
    ) -> None:
        self.embed_tokens = embed_tokens
        self.layers = layers
        self.norm = norm
        self._embedding_scale = embedding_scale

    def __call__(self, step: Step) -> Tensor:
        x = self.embed_tokens(step)
        if self._embedding_scale != 1.0:
            x = x * self._embedding_scale
        for layer in self.layers:
            x = layer(x, step)
        return x


class CausalLM(Module):
    """A model that generates tokens.

    A family sets :attr:`config_class` and defines ``__init__(config)`` and :meth:`forward`.

    Attributes:
        config_class: reads and validates the checkpoint's configuration.
        gguf_names: module path to GGUF tensor name without its last part, or a parameter's whole name to a tensor's
            whole name; ``{}`` stands for the layer's number.
        ignored_tensors: patterns of tensors in checkpoints that are not parameters; set on the instance where they
            depend on the configuration.
    """

    config_class: ClassVar[type[ModelConfig]] = DecoderConfig
    gguf_names: ClassVar[Mapping[str, str]] = GGUF_DECODER_NAMES
    ignored_tensors: tuple[str, ...] = ("*.rotary_emb.inv_freq", "rope_freqs.weight", "rope_factors_*.weight")

    def forward(self, step: Step) -> Tensor:
        """Logits ``[S, vocab_size]`` of the rows that the step asks for."""
        raise NotImplementedError

    def huggingface_names(self, parameter: str) -> tuple[str, ...]:
        """The names that ``parameter`` may have in a Hugging Face checkpoint, tried in order; its own by default."""
        return (parameter,)

    def gguf_name(self, parameter: str) -> str:
        """The tensor of a GGUF file that holds ``parameter``."""
        layers = re.findall(r"\.(\d+)\.", parameter)
        pattern = re.sub(r"\.\d+\.", ".{}.", parameter)
        if pattern in self.gguf_names:
            return self.gguf_names[pattern].format(*layers)
        module, _, leaf = pattern.rpartition(".")
        return f"{self.gguf_names.get(module, module).format(*layers)}.{leaf}"

    def huggingface_transform(self, parameter: str) -> Transform | None:
        """A change that ``parameter`` needs when it comes from a Hugging Face checkpoint; none by default."""
        return None

    def gguf_transform(self, parameter: str) -> Transform | None:
        """A change that ``parameter`` needs when it comes from a GGUF file; none by default."""
        return None

    def gguf_pieces(self, parameter: str) -> Pieces | None:
        """What ``parameter`` is made of in a GGUF file that has not its :meth:`gguf_name`; nothing by default."""
        return None


class DecoderLM(CausalLM):
    """A :class:`Decoder` and an output head, which is the embedding when ``config.tie_word_embeddings`` is set.

    Args:
        layers: each is called with ``(x, step)``.
        weight_offset: of the final norm, as :class:`~modelhost.api.blocks.RMSNorm` takes it.
        embedding_scale: multiplies the embeddings.
        soft_cap: bound of the logits; none by default.
    """

    def __init__(
        self,
        config: DecoderConfig,
        layers: Sequence[Callable[[Tensor, Step], Tensor]],
        *,
        weight_offset: float = 0.0,
        embedding_scale: float = 1.0,
        soft_cap: float | None = None,
    ) -> None:
        embedding = Embedding(config.vocab_size, config.hidden_size)
        norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps, weight_offset=weight_offset)
        self.model = Decoder(embedding, layers, norm, embedding_scale=embedding_scale)
        tied = config.tie_word_embeddings
        self.lm_head = embedding if tied else Linear(config.hidden_size, config.vocab_size, sharding="vocabulary")
        self._soft_cap = soft_cap

    def forward(self, step: Step) -> Tensor:
        logits = head(step, self.model(step), self.model.norm, self.lm_head.weight)
        return logits if self._soft_cap is None else ops.soft_cap(logits, cap=self._soft_cap)


def head(step: Step, x: Tensor, norm: RMSNorm, projection: Parameter) -> Tensor:
    """Logits ``[S, vocab_size]``: the wanted rows of ``x``, normalised and projected."""
    return ops.linear(norm(ops.take_rows(x, step.logit_rows)), projection)


def trace(model: CausalLM, dtype: DType) -> Graph:
    """Run ``model.forward`` on symbolic inputs.

    Args:
        dtype: of activations.

    Returns:
        the graph, with one output ``logits``, float32 ``[S, vocab_size]``.
    """
    model.assign_names()
    graph = Graph("forward")
    with tracing(graph):
        logits = model.forward(Step(graph, dtype))
        if logits.dtype != "float32":
            logits = ops.cast(logits, dtype="float32")
    graph.outputs["logits"] = logits
    return graph
