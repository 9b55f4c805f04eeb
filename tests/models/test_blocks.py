"""Blocks that families share, against the formulas written out with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from modelhost.api import GraphError
from modelhost.api.backend import CacheLayout
from modelhost.api.blocks import Attention, Embedding, GatedMLP, PreNormLayer, RMSNorm
from modelhost.api.model import CausalLM, DecoderConfig, DecoderLM, RopeParameters, RotaryEmbedding, Step, Tensor, trace
from modelhost.api.weight import Weight
from modelhost.graph import ops
from modelhost.graph.graph import Graph
from modelhost.graph.operation import tracing
from modelhost.reference import ReferenceBackend
from modelhost.testing.checkpoints import random_tensor
from modelhost.weights.decode import f32

HIDDEN, VOCAB = 6, 11
LIMIT = 0.2
FIELDS: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 10, "num_hidden_layers": 1}
FIELDS |= {"num_attention_heads": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-5}
TOKENS = np.array([4, 9, 0], np.int32)


class Zero:
    """A layer that leaves its input as it is."""

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        return x


def run(model: CausalLM, values: dict[str, npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    def load(parameter: Any) -> Weight:
        array = values[parameter.name]
        blocks = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape[:-1], -1)
        return Weight(parameter.name, "f32", array.shape, blocks, f32)

    graph = trace(model, "float32")
    groups = {state.spec.group for state in graph.states.values()}
    executable = ReferenceBackend().compile(graph, load, CacheLayout(4, dict.fromkeys(groups, 2)))
    count = len(TOKENS)
    inputs = {"token_ids": TOKENS, "positions": np.arange(count), "logit_rows": np.arange(count)}
    inputs |= {"sequence_starts": np.array([0, count]), "context_lengths": np.array([count])}
    inputs |= {"slot_mapping.full": 4 + np.arange(count), "block_table.full": np.array([[1]])}
    return executable.run({name: inputs[name].astype(np.int32) for name in graph.inputs})["logits"]


def parameters(model: CausalLM) -> dict[str, npt.NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {name: random_tensor(name, parameter.sizes, rng) for name, parameter in model.named_parameters()}


def normed(x: npt.NDArray[Any], weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


@pytest.mark.parametrize("tied", [False, True])
def test_decoder_scales_embeddings_and_caps_logits(tied: bool) -> None:
    config = DecoderConfig(**FIELDS, tie_word_embeddings=tied)
    model = DecoderLM(config, [Zero()], weight_offset=1.0, embedding_scale=2.5, soft_cap=0.75)
    values = parameters(model)
    assert list(values) == ["model.embed_tokens.weight", "model.norm.weight", *([] if tied else ["lm_head.weight"])]
    head = values["model.embed_tokens.weight" if tied else "lm_head.weight"]
    x = values["model.embed_tokens.weight"][TOKENS] * 2.5
    expected = 0.75 * np.tanh(normed(x, 1 + values["model.norm.weight"]) @ head.T / 0.75)
    np.testing.assert_allclose(run(model, values), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_pre_norm_layer(offset: float) -> None:
    config = DecoderConfig(**FIELDS, hidden_act="relu", attention_bias=True, mlp_bias=True)
    rotary = RotaryEmbedding(RopeParameters(), HIDDEN, 16)
    attention = Attention.of(config, rotary, output_bias=False)
    layer = PreNormLayer(attention, GatedMLP.of(config), hidden_size=HIDDEN, eps=1e-5, weight_offset=offset)
    model = DecoderLM(config, [layer])
    values = parameters(model)
    part = {name.removeprefix("model.layers.0."): value for name, value in values.items()}
    assert "self_attn.q_proj.bias" in part
    assert "self_attn.o_proj.bias" not in part

    def project(name: str, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return x @ part[f"{name}.weight"].T + part.get(f"{name}.bias", 0)

    x = values["model.embed_tokens.weight"][TOKENS]
    y = normed(x, part["input_layernorm.weight"] + offset)
    q, k = rotated(project("self_attn.q_proj", y)), rotated(project("self_attn.k_proj", y))
    scores = np.where(np.tri(len(TOKENS)), q @ k.T / np.sqrt(HIDDEN), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    x = x + project("self_attn.o_proj", weights @ project("self_attn.v_proj", y))
    y = normed(x, part["post_attention_layernorm.weight"] + offset)
    x = x + project("mlp.down_proj", np.maximum(project("mlp.gate_proj", y), 0) * project("mlp.up_proj", y))
    expected = normed(x, values["model.norm.weight"]) @ values["lm_head.weight"].T
    np.testing.assert_allclose(run(model, values), expected, rtol=1e-4, atol=1e-5)


def test_a_rotation_with_an_offset_undone() -> None:
    """Rotated at p - 3 and back at p, a vector is rotated by -3, wherever it is."""

    class Rotating(CausalLM):
        def __init__(self) -> None:
            self.embed_tokens = Embedding(VOCAB, HIDDEN)
            self._rotary = RotaryEmbedding(RopeParameters(), HIDDEN, 16, interleaved=True)

        def forward(self, step: Step) -> Tensor:
            x = ops.reshape(self.embed_tokens(step), shape=step.shape(1, HIDDEN))
            turned = self._rotary(self._rotary(x, step, offset=-3), step, back=True)
            return ops.take_rows(ops.reshape(turned, shape=step.shape(HIDDEN)), step.logit_rows)

    model = Rotating()
    values = parameters(model)
    pairs = values["embed_tokens.weight"][TOKENS].reshape(len(TOKENS), -1, 2)
    angles = -3 * 10000.0 ** (-np.arange(HIDDEN // 2) / (HIDDEN // 2))
    cos, sin = np.cos(angles), np.sin(angles)
    wanted = np.stack([pairs[..., 0] * cos - pairs[..., 1] * sin, pairs[..., 1] * cos + pairs[..., 0] * sin], axis=-1)
    np.testing.assert_allclose(run(model, values), wanted.reshape(len(TOKENS), -1), rtol=1e-4, atol=1e-5)


def test_what_depends_on_the_length_cannot_be_undone() -> None:
    rotary = RotaryEmbedding(RopeParameters(rope_type="dynamic", factor=2.0), HIDDEN, 16)
    graph = Graph("test")
    with tracing(graph), pytest.raises(GraphError, match="rope_type 'dynamic' can be neither offset nor undone"):
        step = Step(graph, "float32")
        rotary(Tensor("float32", step.shape(1, HIDDEN)), step, back=True)


def test_limits_of_a_gated_mlp() -> None:
    class Limited(CausalLM):
        def __init__(self) -> None:
            self.embed_tokens = Embedding(VOCAB, HIDDEN)
            self.mlp = GatedMLP(HIDDEN, 9, activation="relu", limit=LIMIT)

        def forward(self, step: Step) -> Tensor:
            return ops.take_rows(self.mlp(self.embed_tokens(step)), step.logit_rows)

    model = Limited()
    values = parameters(model)
    x = values["embed_tokens.weight"][TOKENS]
    gate, up = (x @ values[f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
    assert (gate > LIMIT).any() and (np.abs(up) > LIMIT).any()
    inner = np.maximum(np.minimum(gate, LIMIT), 0) * np.clip(up, -LIMIT, LIMIT)
    np.testing.assert_allclose(run(model, values), inner @ values["mlp.down_proj.weight"].T, rtol=1e-4, atol=1e-5)


def rotated(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    half = HIDDEN // 2
    angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(half) / half)
    first, second = x[:, :half], x[:, half:]
    turned = [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)]
    return np.concatenate(turned, axis=-1)


def test_attention_norms_come_before_rotation() -> None:
    config = DecoderConfig(**FIELDS)
    norms = {"q_norm": RMSNorm(HIDDEN, eps=1e-5), "k_norm": RMSNorm(HIDDEN, eps=1e-5)}
    attention = Attention.of(config, RotaryEmbedding(RopeParameters(), HIDDEN, 16), **norms)
    layer = PreNormLayer(attention, GatedMLP.of(config), hidden_size=HIDDEN, eps=1e-5)
    names = [node.op.name for node in trace(DecoderLM(config, [layer]), "float32").nodes]
    first = names.index("rope")
    assert names[:first].count("rms_norm") == 2
    assert names[first:].index("rms_norm") < names[first:].index("write_cache")
