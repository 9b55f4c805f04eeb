from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from modelhost.api import WeightError
from modelhost.api.weight import Weight
from modelhost.weights.checkpoint import Checkpoint
from modelhost.weights.encoding_table import Decoder, EncodingTable
from modelhost.weights.load import Source, concatenate, fetch, verify
from modelhost.weights.open import open_checkpoint

HINT = "Check that the configuration and the weights belong together and that the model's plugin is current."


@pytest.fixture
def checkpoint(model_dir: Path, encodings: EncodingTable) -> Checkpoint:
    tensors = {
        "embed.weight": np.arange(12, dtype=np.float32).reshape(4, 3),
        "layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "layer.rotary_emb.inv_freq": np.ones(2, np.float32),
    }
    save_file(tensors, model_dir / "model.safetensors")
    return open_checkpoint(model_dir, encodings)


def reversed_rows(weight: Weight) -> Weight:
    return weight.rows(slice(None, None, -1))


def flattened(weight: Weight) -> Weight:
    return replace(weight, shape=(weight.size,), blocks=weight.blocks.reshape(-1))


def test_parameters_get_their_tensors(checkpoint: Checkpoint) -> None:
    wanted = {
        "embed": Source("embed.weight", shape=(4, 3)),
        "layer": Source("layer.weight", reversed_rows, (2, 3)),
        "flat": Source("layer.weight", flattened, (6,)),
        "head": Source("lm_head.weight", shape=(4, 3), fallbacks=("output.weight", "embed.weight")),
    }
    verify(checkpoint, wanted, ignore=("*.rotary_emb.inv_freq",))
    weights = {parameter: fetch(checkpoint, source) for parameter, source in wanted.items()}
    assert weights["layer"].dequantize().tolist() == [[3, 4, 5], [0, 1, 2]]
    assert weights["flat"].dequantize().tolist() == [0, 1, 2, 3, 4, 5]
    assert weights["head"].name == "embed.weight"
    assert np.shares_memory(weights["head"].blocks, weights["embed"].blocks)


def test_dimensions_of_one_do_not_count(model_dir: Path, encodings: EncodingTable) -> None:
    """As convolutions ``[channels, 1, width]`` and rates ``[1, 1, heads, 1]`` are stored."""
    stored = {"conv": np.arange(6, dtype=np.float32).reshape(2, 1, 3), "rate": np.ones((1, 1, 4, 1), np.float32)}
    save_file(stored, model_dir / "model.safetensors")
    checkpoint = open_checkpoint(model_dir, encodings)
    wanted = {"conv": Source("conv", shape=(2, 3)), "rate": Source("rate", shape=(4,))}
    verify(checkpoint, wanted)
    weights = {parameter: fetch(checkpoint, source) for parameter, source in wanted.items()}
    assert weights["conv"].dequantize().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert weights["rate"].dequantize().tolist() == [1, 1, 1, 1]
    with pytest.raises(WeightError, match=r"conv: wanted shape \(3, 2\), found \(2, 1, 3\)"):
        verify(checkpoint, wanted | {"conv": Source("conv", shape=(3, 2))})


def test_every_problem_is_reported_at_once(checkpoint: Checkpoint) -> None:
    wanted = {
        "a": Source("embed.weight", shape=(3, 4)),
        "b": Source("embed.weight", flattened, (9,)),
        "c": Source("norm.weight", shape=(3,)),
        "d": Source("lm_head.weight", fallbacks=("output.weight",)),
    }
    with pytest.raises(WeightError) as error:
        verify(checkpoint, wanted, ignore=["*.inv_freq"])
    assert str(error.value) == (
        f"{checkpoint.path}: the tensors do not fit the model: 2 missing, 1 unexpected, 1 wrongly shaped.\n"
        "missing:\n"
        "  norm.weight of shape (3,)\n"
        "  lm_head.weight or output.weight\n"
        "unexpected:\n"
        "  layer.weight of shape (2, 3)\n"
        "wrongly shaped:\n"
        "  embed.weight: wanted shape (3, 4), found (4, 3)\n" + HINT
    )


def refuse(weight: Weight) -> Weight:
    raise WeightError("3 columns do not divide among 2 heads")


@pytest.mark.parametrize(
    ("source", "count", "problem"),
    [
        (
            Source("embed.weight", flattened, (9,)),
            "1 wrongly shaped",
            "wrongly shaped:\n  embed.weight: wanted shape (9,), found (12,) (stored as (4, 3))",
        ),
        (
            Source("embed.weight", refuse),
            "1 wrongly shaped",
            "wrongly shaped:\n  embed.weight: 3 columns do not divide among 2 heads",
        ),
        (Source("norm.weight", shape=(3,)), "1 missing", "missing:\n  norm.weight of shape (3,)"),
    ],
)
def test_a_weight_that_does_not_fit_is_not_fetched(checkpoint, source, count, problem) -> None:
    with pytest.raises(WeightError) as error:
        fetch(checkpoint, source)
    assert str(error.value) == f"{checkpoint.path}: the tensors do not fit the model: {count}.\n{problem}\n{HINT}"


def test_a_long_list_is_cut_and_counted(checkpoint: Checkpoint) -> None:
    with pytest.raises(WeightError) as error:
        verify(checkpoint, {str(n): Source(f"t{n}") for n in range(13)}, ignore=["*"])
    listed = "".join(f"  t{n}\n" for n in range(10))
    assert str(error.value) == (
        f"{checkpoint.path}: the tensors do not fit the model: 13 missing.\nmissing:\n{listed}  and 3 more\n{HINT}"
    )


class TestConcatenate:
    def weight(self, encodings: EncodingTable, id: str, *shape: int) -> Weight:
        record = encodings.by_id(id, "a test")
        row_bytes = shape[-1] // record.block_values * record.block_bytes
        blocks = np.random.default_rng(sum(shape)).integers(0, 64, (*shape[:-1], row_bytes), np.uint8)
        return Weight(f"w{shape}", id, shape, blocks, Decoder(record))

    @pytest.mark.parametrize("id", ["f32", "bf16", "q4_k", "iq2_xxs"])
    def test_rows_are_stacked_in_their_encoding(self, id: str, encodings: EncodingTable) -> None:
        parts = [self.weight(encodings, id, rows, 512) for rows in (3, 1, 2)]
        merged = concatenate(parts, "qkv")
        assert (merged.name, merged.encoding, merged.shape) == ("qkv", id, (6, 512))
        expected = np.concatenate([part.dequantize() for part in parts])
        assert np.array_equal(merged.dequantize(), expected, equal_nan=True)

    @pytest.mark.parametrize("id", ["f32", "q8_0"])
    def test_vectors_are_joined(self, id: str, encodings: EncodingTable) -> None:
        parts = [self.weight(encodings, id, 64), self.weight(encodings, id, 32)]
        merged = concatenate(parts, "bias")
        assert merged.shape == (96,)
        expected = np.concatenate([part.dequantize() for part in parts])
        assert np.array_equal(merged.dequantize(), expected, equal_nan=True)

    @pytest.mark.parametrize(("id", "shape"), [("f16", (2, 64)), ("f32", (2, 32)), ("f32", (64,))])
    def test_different_encodings_or_columns_are_refused(
        self, id: str, shape: tuple[int, ...], encodings: EncodingTable
    ) -> None:
        with pytest.raises(WeightError) as error:
            concatenate([self.weight(encodings, "f32", 2, 64), self.weight(encodings, id, *shape)], "qkv")
        assert str(error.value) == (
            f"cannot concatenate into 'qkv': 'w(2, 64)' (f32 (2, 64)) and 'w{shape}' ({id} {shape}) "
            "differ in encoding or columns"
        )

    def test_nothing_to_concatenate(self) -> None:
        with pytest.raises(WeightError, match=r"^no weights to concatenate into 'qkv'$"):
            concatenate([], "qkv")
