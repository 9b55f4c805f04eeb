"""A tiny checkpoint whose answers are known, and ways to run the command line as a user would."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from modelhost.cli.main import main

SPECIAL = ("<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
COUNTING_TEMPLATE = "{{ 'stuvwxyz'[messages|length] }}"
"""Ends with a letter that depends on the number of messages, so the answer tells how many there were."""
ENDLESS_TEMPLATE = "{{ messages[-1].content }}0"
CONTEXT = 60_000
ESCAPE = chr(0x11B)
"""The byte 0x1B as byte-level vocabularies spell it; with the ``c`` that follows it resets a terminal."""


def successors() -> dict[str, str]:
    """What the tiny model says after each token: the alphabet and ``HI!`` come to an end, digits never do.

    After ``Q`` come the two bytes of an ``é``.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    table = dict(zip(letters, (*letters[1:], "<|end|>"), strict=True))
    table |= {str(digit): str((digit + 1) % 10) for digit in range(10)}
    return (
        table
        | {"<|assistant|>": "H", "H": "I", "I": "!", "!": "<|end|>", "A": "B", "B": "A"}
        | {"E": ESCAPE, ESCAPE: "c", "Q": "Ã", "Ã": "©", "©": "<|end|>"}
    )


def write_checkpoint(
    folder: Path, *, chat_template: str | None = CHAT_TEMPLATE, strength: float = 10.0, **changes: Any
) -> Path:
    """A Llama of one layer that does nothing: the next token depends on the last one only.

    The logit of the follower is 16 ``strength``, that of other tokens 0; ``C`` is the second choice after ``A``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    vocab, hidden = tokenizer.get_vocab_size(), 264
    head = np.zeros((vocab, hidden), np.float32)
    for token, follower in successors().items():
        head[tokenizer.token_to_id(follower), tokenizer.token_to_id(token)] = strength
    head[tokenizer.token_to_id("C"), tokenizer.token_to_id("A")] = 0.7 * strength
    layer = {
        "input_layernorm": np.ones(hidden),
        "post_attention_layernorm": np.ones(hidden),
        "self_attn.q_proj": np.zeros((16, hidden)),
        "self_attn.k_proj": np.zeros((8, hidden)),
        "self_attn.v_proj": np.zeros((8, hidden)),
        "self_attn.o_proj": np.zeros((hidden, 16)),
        "mlp.gate_proj": np.zeros((8, hidden)),
        "mlp.up_proj": np.zeros((8, hidden)),
        "mlp.down_proj": np.zeros((hidden, 8)),
    }
    tensors = {f"model.layers.0.{name}.weight": value.astype(np.float32) for name, value in layer.items()}
    tensors["model.embed_tokens.weight"] = np.eye(vocab, hidden, dtype=np.float32)
    tensors["model.norm.weight"] = np.ones(hidden, np.float32)
    tensors["lm_head.weight"] = head
    save_file(tensors, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    named = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "add_bos_token": True}
    if chat_template is not None:
        named["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    return tokenizer


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that answers every chat with ``HI!``."""
    return str(write_checkpoint(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same checkpoint without a chat template."""
    return str(write_checkpoint(tmp_path_factory.mktemp("plain"), chat_template=None))


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture()
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process; ``stdin`` is what is piped in."""

    def call(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(arguments)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child process."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm", **(changes or {})}


def command(*arguments: str) -> list[str]:
    """The installed console script with arguments."""
    return [str(Path(sys.executable).with_name("modelhost")), *arguments]


def run_process(*arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Result:
    """Run the installed console script."""
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, env=environment(env), timeout=60)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def install(site: Path, distribution: str, module: str, source: str) -> None:
    """What pip leaves behind of a package with one declaring module."""
    (site / f"{module}.py").write_text(source)
    metadata = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[modelhost]\n{distribution} = {module}\n")
