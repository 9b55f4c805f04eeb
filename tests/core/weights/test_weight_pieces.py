"""Weights that are made up of several tensors, and the memory that they take."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from modelhost.api.weight import Weight
from modelhost.engine.config import EngineConfig
from modelhost.loading import open_model, prepare_model
from modelhost.plugins import boot
from modelhost.weights.checkpoint import Checkpoint
from modelhost.weights.encoding_table import EncodingTable
from modelhost.weights.experts import expert_source
from modelhost.weights.load import Source, concatenate, fetch
from modelhost.weights.open import open_checkpoint
from tests.tiny_model import write_tiny_model

SMAPS = Path("/proc/self/smaps")
COLUMNS = 1 << 10


def values(rows: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + rows * COLUMNS, dtype=np.float32).reshape(rows, COLUMNS)


@pytest.fixture
def checkpoint(model_dir: Path, encodings: EncodingTable) -> Checkpoint:
    """Tensors ``a`` of 3 rows, ``b`` of 1, ``c`` of 2, ``d`` of 1, ``bias.a`` of 4 values, ``bias.b`` of 2."""
    tensors = {"a": values(3), "b": values(1, 7), "c": values(2, 9), "d": values(1, 11)}
    tensors |= {"bias.a": np.arange(4, dtype=np.float32), "bias.b": np.arange(2, dtype=np.float32)}
    save_file(tensors, model_dir / "model.safetensors")
    return open_checkpoint(model_dir, encodings)


def joined(checkpoint: Checkpoint, *names: str) -> Weight:
    return concatenate([checkpoint.weight(name) for name in names], "joined")


def test_pieces_are_the_tensors_themselves(checkpoint: Checkpoint) -> None:
    weight = joined(checkpoint, "a", "b", "c")
    assert [(piece.name, piece.shape) for piece in weight.pieces()] == [
        ("a", (3, COLUMNS)), ("b", (1, COLUMNS)), ("c", (2, COLUMNS)),
    ]  # fmt: skip
    for piece in weight.pieces():
        assert np.shares_memory(piece.blocks, checkpoint.weight(piece.name).blocks)
    assert (weight.name, weight.shape, weight.nbytes) == ("joined", (6, COLUMNS), 6 * COLUMNS * 4)


def test_values_are_those_of_the_pieces_in_order(checkpoint: Checkpoint) -> None:
    weight = joined(checkpoint, "c", "a")
    expected = np.concatenate([values(2, 9), values(3)])
    assert np.array_equal(weight.dequantize(), expected)
    assert np.array_equal(weight.blocks, expected.view(np.uint8))
    assert np.array_equal(weight.rows(slice(1, 4)).dequantize(), expected[1:4])
    assert np.array_equal(weight.transposed().dequantize(), expected.T)


def test_one_tensor_is_its_own_piece(checkpoint: Checkpoint) -> None:
    weight = checkpoint.weight("a")
    assert weight.pieces() == (weight,)
    assert weight.blocks is weight.blocks


def test_joined_weights_can_be_joined(checkpoint: Checkpoint) -> None:
    weight = concatenate([joined(checkpoint, "a", "b"), checkpoint.weight("c")], "all")
    assert [piece.name for piece in weight.pieces()] == ["a", "b", "c"]
    assert np.array_equal(weight.dequantize(), np.concatenate([values(3), values(1, 7), values(2, 9)]))


def test_vectors(checkpoint: Checkpoint) -> None:
    weight = joined(checkpoint, "bias.a", "bias.b")
    assert [piece.shape for piece in weight.pieces()] == [(4,), (2,)]
    assert (weight.shape, weight.nbytes) == ((6,), 24)
    assert weight.dequantize().tolist() == [0, 1, 2, 3, 0, 1]
    assert weight.blocks.view(np.float32).tolist() == [0, 1, 2, 3, 0, 1]


def test_experts_are_stacked_without_a_copy(checkpoint: Checkpoint) -> None:
    weight = fetch(checkpoint, Source("experts", shape=(2, 1, COLUMNS), stack=("b", "d")))
    assert weight.shape == (2, 1, COLUMNS)
    assert [(piece.name, piece.shape) for piece in weight.pieces()] == [
        ("b", (1, 1, COLUMNS)), ("d", (1, 1, COLUMNS)),
    ]  # fmt: skip
    for piece in weight.pieces():
        assert np.shares_memory(piece.blocks, checkpoint.weight(piece.name).blocks)
    expected = np.stack([values(1, 7), values(1, 11)])
    assert np.array_equal(weight.dequantize(), expected)
    assert np.array_equal(weight.blocks.view(np.float32), expected)


def test_half_of_the_rows_of_every_expert_is_not_copied(model_dir: Path, encodings: EncodingTable) -> None:
    fused = values(12).reshape(2, 6, COLUMNS)
    save_file({"mlp.gate_up_proj": fused}, model_dir / "model.safetensors")
    checkpoint = open_checkpoint(model_dir, encodings)
    for name, rows in (("mlp.gate_proj.weight", slice(0, 3)), ("mlp.up_proj.weight", slice(3, 6))):
        weight = fetch(checkpoint, expert_source((name,), (2, 3, COLUMNS), checkpoint))
        assert [piece.shape for piece in weight.pieces()] == [(1, 3, COLUMNS)] * 2
        for piece in weight.pieces():
            assert piece.blocks.flags.c_contiguous
            assert np.shares_memory(piece.blocks, checkpoint.weight("mlp.gate_up_proj").blocks)
        assert np.array_equal(weight.dequantize(), fused[:, rows])


def test_a_replaced_field_leaves_nothing_of_the_pieces_behind(checkpoint: Checkpoint) -> None:
    weight = joined(checkpoint, "a", "b")
    other = replace(weight, shape=(1, COLUMNS), blocks=checkpoint.weight("d").blocks)
    assert other.pieces() == (other,)
    assert np.array_equal(other.dequantize(), values(1, 11))
    assert np.array_equal(replace(weight, name="renamed").dequantize(), weight.dequantize())
    with pytest.raises(FrozenInstanceError):
        weight.blocks = other.blocks  # type: ignore[misc, assignment]


def test_a_weight_can_be_pickled(checkpoint: Checkpoint) -> None:
    weight = joined(checkpoint, "a", "b")
    again = pickle.loads(pickle.dumps(weight))
    assert np.array_equal(again.dequantize(), weight.dequantize())
    assert [piece.name for piece in again.pieces()] == ["a", "b"]


def test_joining_takes_no_memory(model_dir: Path, encodings: EncodingTable, little_memory: None) -> None:
    big = values(1 << 10)
    names = [f"t{number}" for number in range(8)]
    for name in names:
        save_file({name: big}, model_dir / f"{name}.safetensors")
    index = {"weight_map": {name: f"{name}.safetensors" for name in names}}
    (model_dir / "model.safetensors.index.json").write_text(str(index).replace("'", '"'))
    checkpoint = open_checkpoint(model_dir, encodings)
    weight = joined(checkpoint, *names)
    experts = fetch(checkpoint, Source("experts", stack=tuple(names)))
    assert weight.nbytes == experts.nbytes == 32 << 20
    assert len(weight.pieces()) == len(experts.pieces()) == 8


def test_the_merged_projections_of_a_model(tmp_path: Path) -> None:
    registry = boot()
    source = open_model(write_tiny_model(tmp_path / "model"), registry)
    prepared = prepare_model(source, registry, EngineConfig(backend="reference"))
    merged = [parameter for parameter in prepared.graph.parameters.values() if parameter.parts]
    assert len(merged) == 4
    for parameter in merged:
        weight = source.load(parameter)
        assert (weight.name, weight.shape) == (parameter.name, parameter.sizes)
        assert [piece.name for piece in weight.pieces()] == [source.sources[p.name].tensor for p in parameter.parts]
        for piece in weight.pieces():
            assert np.shares_memory(piece.blocks, source.checkpoint.weight(piece.name).blocks)


def resident(file: Path) -> int:
    """Bytes of ``file`` that are in this process's memory."""
    total, inside = 0, False
    for line in SMAPS.read_text().splitlines():
        key, _, value = line.partition(" ")
        if not key.endswith(":"):
            inside = line.endswith(str(file))
        elif inside and key == "Rss:":
            total += int(value.split()[0]) << 10
    return total


@pytest.mark.skipif(not SMAPS.exists(), reason="the resident set is read from /proc/self/smaps, which Linux has")
@pytest.mark.parametrize("pick", [lambda c: c.weight("x"), lambda c: joined(c, "x", "y")], ids=["one tensor", "two"])
def test_released_pages_leave_the_resident_set_and_come_back(
    model_dir: Path, encodings: EncodingTable, pick: Callable[[Checkpoint], Weight]
) -> None:
    file = model_dir / "model.safetensors"
    tensors = {"x": values(1 << 10), "y": values(1 << 10, 5)}
    save_file(tensors, file)
    checkpoint = open_checkpoint(model_dir, encodings)
    weight = pick(checkpoint)
    expected = weight.dequantize().copy()
    assert resident(file) >= weight.nbytes
    weight.release()
    assert resident(file) < weight.nbytes // 10
    assert np.array_equal(weight.dequantize(), expected)
    assert np.array_equal(checkpoint.weight("y").dequantize(), tensors["y"])


@pytest.mark.skipif(not SMAPS.exists(), reason="the resident set is read from /proc/self/smaps, which Linux has")
def test_release_leaves_other_tensors_alone(model_dir: Path, encodings: EncodingTable) -> None:
    file = model_dir / "model.safetensors"
    save_file({"x": values(1 << 10), "y": values(1 << 12)}, file)
    checkpoint = open_checkpoint(model_dir, encodings)
    checkpoint.weight("x").dequantize().sum()
    checkpoint.weight("y").dequantize().sum()
    checkpoint.weight("x").release()
    assert resident(file) >= checkpoint.weight("y").nbytes // 2
    assert resident(file) < checkpoint.weight("y").nbytes + checkpoint.weight("x").nbytes // 10


@pytest.mark.skipif(not SMAPS.exists(), reason="the resident set is read from /proc/self/smaps, which Linux has")
def test_what_was_copied_by_a_transform_leaves_the_resident_set(model_dir: Path, encodings: EncodingTable) -> None:
    file = model_dir / "model.safetensors"
    tensors = {"x": values(1 << 10, 3)}
    save_file(tensors, file)
    checkpoint = open_checkpoint(model_dir, encodings)
    backwards = np.arange(1 << 10)[::-1]
    weight = fetch(checkpoint, Source("x", lambda weight: weight.rows(backwards)))
    assert resident(file) < weight.nbytes // 10
    assert np.array_equal(weight.dequantize(), tensors["x"][::-1])


def test_release_of_what_is_in_no_file() -> None:
    weight = Weight.of_values("w", values(64))
    weight.release()
    assert np.array_equal(weight.dequantize(), values(64))


def test_release_does_not_drop_what_was_written_to_a_private_mapping(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 16))
    array = np.memmap(tmp_path / "file", np.uint8, "c")
    array[:] = 7
    view = array.view(np.ndarray)[:]
    view.flags.writeable = False
    replace(Weight.of_values("w", values(16)), blocks=view).release()
    assert (view == 7).all()
