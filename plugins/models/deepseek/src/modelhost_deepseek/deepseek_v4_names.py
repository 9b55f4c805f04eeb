"""The names that DeepSeek-V4 checkpoints give to parameters.

Source: transformers ``conversion_mapping.py``, model type ``deepseek_v4``.
"""

from __future__ import annotations

_PARTS = (
    (".self_attn.compressor.indexer.scorer.weights_proj.", ".attn.indexer.weights_proj."),
    (".self_attn.compressor.indexer.q_b_proj.", ".attn.indexer.wq_b."),
    (".self_attn.compressor.indexer.", ".attn.indexer.compressor."),
    (".self_attn.", ".attn."),
    (".compressor.kv_norm.", ".compressor.norm."),
    (".q_a_norm.", ".q_norm."),
    (".q_a_proj.", ".wq_a."),
    (".q_b_proj.", ".wq_b."),
    (".kv_proj.", ".wkv."),
    (".compressor.gate_proj.", ".compressor.wgate."),
    (".o_a_proj.", ".wo_a."),
    (".o_b_proj.", ".wo_b."),
    (".sinks", ".attn_sink"),
    (".position_bias", ".ape"),
    (".mlp.", ".ffn."),
    (".gate.e_score_correction_bias", ".gate.bias"),
    ("experts.gate_proj.", "experts.w1."),
    ("experts.down_proj.", "experts.w2."),
    ("experts.up_proj.", "experts.w3."),
    (".input_layernorm.", ".attn_norm."),
    (".post_attention_layernorm.", ".ffn_norm."),
    (".attn_hc.", ".hc_attn_"),
    (".ffn_hc.", ".hc_ffn_"),
    ("lm_head.", "head."),
)
_OUTER = (("model.embed_tokens.", "embed."), ("model.hc_head.hc_", "hc_head_"), ("model.", ""))


def checkpoint_names(parameter: str) -> tuple[str, ...]:
    """DeepSeek's name, the name that transformers writes, and the parameter's own."""
    written = parameter
    for ours, theirs in _PARTS:
        written = written.replace(ours, theirs)
    outer = ((ours, theirs) for ours, theirs in _OUTER if written.startswith(ours))
    ours, theirs = next(outer, ("", ""))
    published = theirs + written.removeprefix(ours)
    written = written.replace(".attn.kv_norm.", ".attn.norm.")
    return tuple(dict.fromkeys((published, written, parameter)))
