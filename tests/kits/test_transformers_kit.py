"""The transformers reference: random checkpoints that transformers wrote, and what imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from modelhost.testing.transformers_reference import TransformersReference, save_random

FIELDS = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1}
FIELDS |= {"num_attention_heads": 2, "num_key_value_heads": 1}


def test_the_module_imports_neither_torch_nor_transformers() -> None:
    code = "import sys, modelhost.testing.transformers_reference\nprint({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_checkpoints_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    paths = [save_random(tmp_path / name, "llama", FIELDS, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    first, same, other = ((path / "model.safetensors").read_bytes() for path in paths)
    assert first == same != other


def test_token_by_token_is_the_whole_sequence(tmp_path: Path) -> None:
    reference = TransformersReference(save_random(tmp_path / "m", "llama", FIELDS))
    apart, whole = reference([1, 2, 3], [4, 5]), reference([1, 2, 3, 4, 5], [])
    assert apart.shape == (5, 31)
    np.testing.assert_allclose(apart, whole, atol=1e-5)
    assert reference([1, 2, 3], [4, 5]) is apart
