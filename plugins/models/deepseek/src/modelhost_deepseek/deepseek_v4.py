"""DeepSeek-V4: several residual streams, attention over recent tokens and over pooled ones, experts looked up by token.

Reference: transformers ``models/deepseek_v4/modeling_deepseek_v4.py``; DeepSeek-V4 report, 2026.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from modelhost.api import WeightError
from modelhost.api.backend import CacheSpec
from modelhost.api.blocks import Embedding, Experts, GatedMLP, Linear, RMSNorm, Router, Routing
from modelhost.api.model import CausalLM, Module, Parameter, RotaryEmbedding, State, Step, Tensor, Transform, Weight
from modelhost.graph import ops

from .compressor import KeyCompressor
from .deepseek_v4_config import SLIDING, SPARSE, DeepseekV4Config
from .deepseek_v4_names import checkpoint_names
from .hyper_connection import HyperConnection, StreamCollapse


class DeepseekV4(CausalLM):
    config_class = DeepseekV4Config
    ignored_tensors = (*CausalLM.ignored_tensors, "mtp.*", "model.mtp.*")

    def __init__(self, config: DeepseekV4Config) -> None:
        self.model = _Model(config)
        embedding = self.model.embed_tokens
        tied = config.tie_word_embeddings
        self.lm_head = embedding if tied else Linear(config.hidden_size, config.vocab_size, sharding="vocabulary")
        self._experts = config.n_routed_experts

    def forward(self, step: Step) -> Tensor:
        streams = ops.take_rows(self.model(step), step.logit_rows)
        x = self.model.norm(self.model.hc_head(streams))
        return ops.linear(x, self.lm_head.weight)

    def huggingface_names(self, parameter: str) -> tuple[str, ...]:
        return checkpoint_names(parameter)

    def huggingface_transform(self, parameter: str) -> Transform | None:
        return partial(_checked_experts, experts=self._experts) if parameter.endswith(".tid2eid") else None


def _checked_experts(table: Weight, experts: int) -> Weight:
    """``table`` as it is.

    Raises:
        WeightError: it has numbers that are not those of experts.
    """
    numbers = table.dequantize()
    lowest, highest = float(numbers.min()), float(numbers.max())
    if not (lowest >= 0 and highest < experts):
        raise WeightError(
            f"experts are numbered 0 to {experts - 1} (n_routed_experts in config.json), found {lowest:g} to "
            f"{highest:g}; the file is damaged, or the field is wrong"
        )
    return table


class _Model(Module):
    def __init__(self, config: DeepseekV4Config) -> None:
        size, positions = config.head_dim, config.max_position_embeddings
        main = RotaryEmbedding(config.main_rope, size, positions, interleaved=True, last=True)
        compress = RotaryEmbedding(config.compress_rope, size, positions, interleaved=True, last=True)
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        ropes = [main if kind == SLIDING else compress for kind in config.layer_types]
        self.layers = [_Layer(config, layer, rotary) for layer, rotary in enumerate(ropes)]
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.hc_head = StreamCollapse(config)
        self._streams, self._hidden_size = config.hc_mult, config.hidden_size

    def __call__(self, step: Step) -> Tensor:
        """The streams of every token, ``[T, hc_mult, hidden_size]``."""
        x = copies = self.embed_tokens(step)
        for _ in range(self._streams - 1):
            copies = ops.concatenate(copies, x)
        streams = ops.reshape(copies, shape=step.shape(self._streams, self._hidden_size))
        for layer in self.layers:
            streams = layer(streams, step)
        return streams


class _Layer(Module):
    def __init__(self, config: DeepseekV4Config, layer: int, rotary: RotaryEmbedding) -> None:
        self.attn_hc = HyperConnection(config)
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = _Attention(config, layer, rotary)
        self.ffn_hc = HyperConnection(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = _Mixture(config, layer)

    def __call__(self, streams: Tensor, step: Step) -> Tensor:
        x, join = self.attn_hc(streams)
        streams = join(self.self_attn(self.input_layernorm(x), step))
        x, join = self.ffn_hc(streams)
        return join(self.mlp(self.post_attention_layernorm(x), step))


class _Attention(Module):
    """One tensor serves as key and value of all heads, so the output is rotated back."""

    def __init__(self, config: DeepseekV4Config, layer: int, rotary: RotaryEmbedding) -> None:
        hidden, heads, size = config.hidden_size, config.num_attention_heads, config.head_dim
        kind, eps = config.layer_types[layer], config.rms_norm_eps
        self.q_a_proj = Linear(hidden, config.q_lora_rank)
        self.q_a_norm = RMSNorm(config.q_lora_rank, eps=eps)
        self.q_b_proj = Linear(config.q_lora_rank, heads * size, sharding="column")
        self.kv_proj = Linear(hidden, size)
        self.kv_norm = RMSNorm(size, eps=eps)
        self.sinks = Parameter((heads,))
        self.o_a_proj = Linear(heads * size // config.o_groups, config.o_groups * config.o_lora_rank)
        self.o_b_proj = Linear(config.o_groups * config.o_lora_rank, hidden, sharding="row")
        self.cache = State("", CacheSpec(1, size, size, config.sliding_window, latent=True))
        self.compressor = None if kind == SLIDING else KeyCompressor(config, rotary, sparse=kind == SPARSE)
        self._heads, self._size, self._rotary, self._eps = heads, size, rotary, eps
        self._groups, self._rank = config.o_groups, config.o_lora_rank

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        compressed = self.q_a_norm(self.q_a_proj(x))
        query = ops.reshape(self.q_b_proj(compressed), shape=step.shape(self._heads, self._size))
        query = self._rotary(ops.rms_norm(query, None, eps=self._eps), step)
        key = ops.reshape(self.kv_norm(self.kv_proj(x)), shape=step.shape(1, self._size))
        key = self._rotary(key, step)
        ops.write_cache(key, None, self.cache, step.slot_mapping(self.cache))
        attended = self._rotary(self._attend(query, x, compressed, step), step, back=True)
        grouped = ops.reshape(attended, shape=step.shape(self._groups, self._heads * self._size // self._groups))
        reduced = ops.head_linear(grouped, self.o_a_proj.weight, rows=(0, self._rank))
        return self.o_b_proj(ops.reshape(reduced, shape=step.shape(self._groups * self._rank)))

    def _attend(self, query: Tensor, x: Tensor, compressed: Tensor, step: Step) -> Tensor:
        table, scale = step.block_table(self.cache), self._size**-0.5
        starts, contexts = step.sequence_starts, step.context_lengths
        if self.compressor is None:
            return ops.attention(query, self.cache, table, starts, contexts, self.sinks, scale=scale)
        selected = self.compressor(x, compressed, step)
        entries = self.compressor.entries
        tables = (table, step.block_table(entries), starts, contexts)
        return ops.compressed_attention(query, self.cache, entries, *tables, self.sinks, selected, scale=scale)


class _HashRouter(Module):
    """Looks up the experts of a token by its id; the scores make their weights only."""

    def __init__(self, config: DeepseekV4Config, routing: Routing) -> None:
        self.weight = Parameter((config.n_routed_experts, config.hidden_size))
        self.tid2eid = Parameter((config.vocab_size, config.num_experts_per_tok), dtype="int32")
        self._routing = asdict(routing)

    def __call__(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        wide = x if x.dtype == "float32" else ops.cast(x, dtype="float32")
        chosen = ops.take_rows(self.tid2eid, step.token_ids)
        return ops.route(ops.linear(wide, self.weight), None, chosen, **self._routing)


class _Mixture(Module):
    def __init__(self, config: DeepseekV4Config, layer: int) -> None:
        hidden, inner, limit = config.hidden_size, config.moe_intermediate_size, config.swiglu_limit
        experts, activation = config.n_routed_experts, config.hidden_act
        routing = Routing(
            config.num_experts_per_tok, config.scoring, renormalize=True, scale=config.routed_scaling_factor
        )
        hashed = config.mlp_layer_types[layer] == "hash_moe"
        self.gate = _HashRouter(config, routing) if hashed else Router(hidden, experts, routing, correction_bias=True)
        self.experts = Experts(hidden, inner, experts, activation=activation, gate_limit=limit, up_limit=limit)
        self.shared_experts = GatedMLP(hidden, inner, activation=activation, limit=limit)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        chosen = self.gate(x, step) if isinstance(self.gate, _HashRouter) else self.gate(x)
        return self.experts(x, *chosen) + self.shared_experts(x)
