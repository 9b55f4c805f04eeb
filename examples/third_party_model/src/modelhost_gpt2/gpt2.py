"""GPT-2 (Radford et al., 2019): a pre-norm decoder with learned positions, layer norms and an ungated MLP.

References: transformers ``models/gpt2/modeling_gpt2.py``; for GGUF files llama.cpp ``conversion/gpt2.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from modelhost.api.backend import CacheSpec
from modelhost.api.blocks import Embedding, LayerNorm, Linear
from modelhost.api.model import CausalLM, ModelConfig, Module, PositiveFloat, PositiveInt, State, Step, Tensor, Weight
from modelhost.graph import ops


class GPT2Config(ModelConfig):
    gguf_fields: ClassVar[Mapping[str, str]] = {
        "n_embd": "embedding_length",
        "n_layer": "block_count",
        "n_head": "attention.head_count",
        "n_inner": "feed_forward_length",
        "max_position_embeddings": "context_length",
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
    }

    vocab_size: PositiveInt
    n_embd: PositiveInt
    n_layer: PositiveInt
    n_head: PositiveInt
    n_inner: PositiveInt | None = None
    max_position_embeddings: PositiveInt
    layer_norm_epsilon: PositiveFloat = 1e-5

    def check(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not a multiple of n_head {self.n_head}")

    @classmethod
    def huggingface_fields(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"max_position_embeddings": raw.get("n_positions"), **raw}

    @classmethod
    def gguf_values(cls, info: Any) -> dict[str, Any]:
        return {**super().gguf_values(info), "vocab_size": info.shape_of("token_embd.weight")[0]}


class SelfAttention(Module):
    def __init__(self, size: int, heads: int) -> None:
        self.c_attn = Linear(size, 3 * size, bias=True, sharding="column")
        self.c_proj = Linear(size, size, bias=True, sharding="row")
        self.cache = State("", CacheSpec(heads, size // heads, size // heads))
        self._size, self._heads = size, heads

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        cache, head = self.cache, self._size // self._heads
        parts = ops.split(self.c_attn(x), sizes=(self._size,) * 3)
        q, k, v = (ops.reshape(part, shape=step.shape(self._heads, head)) for part in parts)
        ops.write_cache(k, v, cache, step.slot_mapping(cache))
        places = step.block_table(cache), step.sequence_starts, step.context_lengths
        attended = ops.attention(q, cache, *places, scale=head**-0.5)
        return self.c_proj(ops.reshape(attended, shape=step.shape(self._size)))


class MLP(Module):
    def __init__(self, size: int, inner: int) -> None:
        self.c_fc = Linear(size, inner, bias=True, sharding="column")
        self.c_proj = Linear(inner, size, bias=True, sharding="row")

    def __call__(self, x: Tensor) -> Tensor:
        return self.c_proj(ops.activation(self.c_fc(x), kind="gelu_tanh"))


class Layer(Module):
    def __init__(self, c: GPT2Config) -> None:
        self.ln_1 = LayerNorm(c.n_embd, eps=c.layer_norm_epsilon)
        self.attn = SelfAttention(c.n_embd, c.n_head)
        self.ln_2 = LayerNorm(c.n_embd, eps=c.layer_norm_epsilon)
        self.mlp = MLP(c.n_embd, c.n_inner or 4 * c.n_embd)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        x = x + self.attn(self.ln_1(x), step)
        return x + self.mlp(self.ln_2(x))


class GPT2(CausalLM):
    config_class = GPT2Config
    ignored_tensors = ("*.attn.bias", "*.attn.masked_bias")
    gguf_names: ClassVar[Mapping[str, str]] = {
        "wte": "token_embd",
        "wpe": "position_embd",
        "h.{}.ln_1": "blk.{}.attn_norm",
        "h.{}.attn.c_attn": "blk.{}.attn_qkv",
        "h.{}.attn.c_proj": "blk.{}.attn_output",
        "h.{}.ln_2": "blk.{}.ffn_norm",
        "h.{}.mlp.c_fc": "blk.{}.ffn_up",
        "h.{}.mlp.c_proj": "blk.{}.ffn_down",
        "ln_f": "output_norm",
    }

    def __init__(self, config: GPT2Config) -> None:
        self.wte = Embedding(config.vocab_size, config.n_embd)
        self.wpe = Embedding(config.max_position_embeddings, config.n_embd)
        self.h = [Layer(config) for _ in range(config.n_layer)]
        self.ln_f = LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)

    def forward(self, step: Step) -> Tensor:
        x = self.wte(step) + ops.embed(step.positions, self.wpe.weight, dtype=step.dtype)
        for layer in self.h:
            x = layer(x, step)
        return ops.linear(self.ln_f(ops.take_rows(x, step.logit_rows)), self.wte.weight)

    def huggingface_names(self, parameter: str) -> tuple[str, ...]:
        """The first checkpoints leave out the prefix."""
        return f"transformer.{parameter}", parameter

    def huggingface_transform(self, parameter: str) -> Callable[[Weight], Weight] | None:
        """The projections are stored as ``[in_features, out_features]``."""
        return Weight.transposed if ".c_" in parameter and parameter.endswith(".weight") else None
