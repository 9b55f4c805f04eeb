"""What is particular to this backend; everything else is in the conformance kit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import util

import numpy as np
import pytest
import torch
from modelhost_torch import attention_plan, probe
from modelhost_torch.attention_plan import Geometry, plan_attention
from modelhost_torch.backend import TorchBackend
from modelhost_torch.plugin import modelhost_backends
from modelhost_torch.settings import TorchSettings

from modelhost.api import UnsupportedError
from modelhost.api.backend import CacheSpec, Parameter, State, Tensor
from modelhost.graph import ops
from modelhost.testing.arrays import RandomWeights, require_close
from modelhost.testing.backend import TOLERANCES
from modelhost.testing.op_cases import OpCase, Operands
from modelhost.testing.paged_steps import Chunk, PagedSteps
from modelhost.testing.small_decoder import VARIANTS, Variant, decoder_graph

CPU = torch.device("cpu")


def test_the_record() -> None:
    (record,) = modelhost_backends()
    assert (record.id, record.devices, record.dtypes) == (
        "torch",
        ("cpu", "cuda", "mps", "xpu"),
        ("float32", "bfloat16", "float16"),
    )


def test_declaring_and_probing_do_not_import_torch() -> None:
    code = (
        "import sys, modelhost_torch.plugin as p, modelhost_torch.probe as q; list(p.modelhost_backends()); "
        "print(q.probe(), 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["None", "False", "False"]


def test_probe_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "find_spec", lambda name: None if name == "torch" else util.find_spec(name))
    assert probe.probe() == "PyTorch is not installed; install it with: pip install torch"


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:x", "CPU", ""])
def test_unknown_devices(device: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        TorchBackend(device=device)
    assert str(error.value) == (
        f"the torch backend does not know device {device!r}; it runs on cpu, cuda, mps, xpu, "
        "with a number where there are several, such as cuda:1"
    )


def test_an_absent_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.raises(UnsupportedError) as error:
        TorchBackend(device="cuda:0")
    assert str(error.value) == (
        f"device 'cuda:0' is not available: PyTorch {torch.__version__} finds no cuda device here; "
        "install a build of PyTorch for it, or use the device cpu"
    )


def test_a_device_number_that_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    with pytest.raises(UnsupportedError) as error:
        TorchBackend(device="cuda:2")
    assert str(error.value) == "device 'cuda:2' is not available: the cuda devices here are numbered 0 to 1"


def test_other_dtypes() -> None:
    with pytest.raises(UnsupportedError) as error:
        TorchBackend(dtype="int8")  # type: ignore[arg-type]
    assert str(error.value) == "the torch backend computes in float32, bfloat16, float16, not in 'int8'"


@pytest.fixture
def threads() -> Iterator[int]:
    """The number of threads before the test, and after it."""
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_the_number_of_threads(threads: int) -> None:
    TorchBackend(settings=TorchSettings())
    assert torch.get_num_threads() == threads
    TorchBackend(settings=TorchSettings(threads=threads + 2))
    assert torch.get_num_threads() == threads + 2


def test_the_record_names_the_settings() -> None:
    (record,) = modelhost_backends()
    assert record.settings == f"{TorchSettings.__module__}:{TorchSettings.__qualname__}"
    assert set(TorchSettings.model_fields) == {"threads"}, "it cannot promise one path for all tokens"


def test_vectors_stay_in_float32() -> None:
    backend = TorchBackend(dtype="bfloat16")
    assert backend.resident_bytes(Parameter((7,)), "q8_0", 100) == 28
    assert backend.resident_bytes(Parameter((3, 7)), "q8_0", 100) == 42


def _run(steps: tuple[tuple[Chunk, ...], ...], variant: Variant) -> list[np.ndarray]:
    backend, weights = TorchBackend(), RandomWeights()
    graph = decoder_graph(variant, backend, weights.encoding_of)
    paging = PagedSteps(vocabulary=Variant.vocabulary)
    executable = backend.compile(graph, weights, paging.layout(graph))
    return [executable.run(paging.inputs(graph, chunks))["logits"] for chunks in steps]


STEPS = ((Chunk(0, 0, 20), Chunk(1, 0, 3)), (Chunk(0, 20, 33), Chunk(1, 3, 4), Chunk(2, 0, 1)))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_long_runs_are_cut_into_slabs(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _run(STEPS, variant)
    monkeypatch.setattr(attention_plan, "MASK_ELEMENTS", 200)
    monkeypatch.setattr(attention_plan, "GATHER_BYTES", 1)
    for got, reference in zip(_run(STEPS, variant), wanted, strict=True):
        require_close({"logits": got}, {"logits": reference}, 4 * TOLERANCES["float32"], "small slabs")


GEOMETRY = Geometry(block_size=4, window=None, group=3, score_rows=3, token_bytes=8, causal_kernel=True)


def _plan(queries: list[int], contexts: list[int], geometry: Geometry = GEOMETRY) -> list[attention_plan.Part]:
    blocks = -(-max(contexts) // geometry.block_size)
    table = 1 + np.arange(len(contexts) * blocks, dtype=np.int32).reshape(len(contexts), -1)
    starts = np.cumsum([0, *queries]).astype(np.int32)
    return plan_attention(table, starts, np.array(contexts, np.int32), geometry, CPU)


def test_decoding_sequences_of_like_length_attend_together() -> None:
    (part,) = _plan([1, 1, 1], [100, 110, 90])
    assert part.all_rows and part.sequences == 3
    mask = part.mask()
    assert mask is not None and mask.shape == (3, 1, 1, 110) and mask.sum((1, 2, 3)).tolist() == [100, 110, 90]


def test_equal_lengths_need_no_mask() -> None:
    (part,) = _plan([1, 1], [30, 30])
    assert part.mask() is None


def test_very_unequal_lengths_attend_apart() -> None:
    short, long = _plan([1, 1, 1], [3, 1000, 70])
    assert short.sequences == 2 and long.sequences == 1 and long.mask() is None
    assert isinstance(long.slots, slice)


def test_a_whole_prompt_uses_the_causal_kernel_and_a_later_chunk_a_mask() -> None:
    (whole,) = _plan([9], [9])
    assert whole.causal and whole.all_rows and whole.mask() is None
    (later,) = _plan([3], [9])
    mask = later.mask()
    assert not later.causal and mask is not None
    assert mask[0, 0].sum(-1).tolist() == [7, 7, 7, 8, 8, 8, 9, 9, 9]


def test_a_window_hides_and_is_not_gathered() -> None:
    geometry = Geometry(block_size=4, window=4, group=1, score_rows=1, token_bytes=8, causal_kernel=True)
    (part,) = _plan([3], [9], geometry)
    assert part.slots == slice(4 + 3, 4 + 9)
    mask = part.mask()
    assert mask is not None and mask[0, 0].int().tolist() == [
        [1, 1, 1, 1, 0, 0],
        [0, 1, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1],
    ]
    (decoding,) = _plan([1], [9], geometry)
    assert decoding.slots == slice(4 + 5, 4 + 9)


def test_layers_share_a_plan_and_tensors_are_freed() -> None:
    backend, weights = TorchBackend(), RandomWeights()
    graph = decoder_graph(VARIANTS[0], backend, weights.encoding_of)
    executable = backend.compile(graph, weights, PagedSteps().layout(graph))
    calls = executable._calls
    assert len(calls) == len(graph.nodes) + 1
    dead = [register for call in calls for register in call.dead]
    intermediates = {register for call in calls for register in call.results}
    kept = {executable._outputs["logits"]}
    assert len(dead) == len(set(dead)) and intermediates - set(dead) == kept


def test_workspace_covers_one_long_sequence() -> None:
    spec = CacheSpec(64, 256, 256)

    def attend(operands: Operands) -> Tensor:
        cache, step = State("cache", spec), operands.step
        indices = (step.block_table(cache), step.sequence_starts, step.context_lengths)
        return ops.attention(operands.activation(64, 256), cache, *indices, scale=1.0)

    graph = OpCase(ops.attention, "long", attend).graph("float32")
    sizes = {"T": 1, "B": 1, "blocks.full": 1000, "block_size": 32}
    assert TorchBackend().workspace_bytes(graph, sizes) > 1000 * 32 * spec.bytes_per_token("float32")


def test_workspace_covers_keys_made_of_latents() -> None:
    heads, size = 32, 128
    spec = CacheSpec(1, 96, 64, latent=True)

    def attend(operands: Operands) -> Tensor:
        cache, step = State("cache", spec), operands.step
        indices = (step.block_table(cache), step.sequence_starts, step.context_lengths)
        projection = operands.parameter(heads * 2 * size, 64)
        query = operands.activation(heads, size + 32)
        return ops.latent_attention(query, projection, cache, *indices, scale=1.0, value_dim=size)

    graph = OpCase(ops.latent_attention, "long", attend).graph("float32")
    sizes = {"T": 2, "B": 1, "blocks.full": 1000, "block_size": 16}
    assert TorchBackend().workspace_bytes(graph, sizes) > 16000 * heads * (2 * size + 32) * 4


def test_workspace_covers_the_choices_of_experts() -> None:
    def run(operands: Operands) -> Tensor:
        weights, ids = ops.route(operands.activation(64), top_k=8)
        gate, up, down = (operands.parameter(64, *shape) for shape in ((16, 32), (16, 32), (32, 16)))
        return ops.experts(operands.activation(32), weights, ids, gate, up, down, kind="silu")

    graph = OpCase(ops.experts, "many", run).graph("float32")
    few, many = (TorchBackend().workspace_bytes(graph, {"T": tokens, "B": 1}) for tokens in (1, 4096))
    assert many - few > 4096 * 8 * (32 + 32 + 3 * 16) * 4
