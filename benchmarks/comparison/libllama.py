"""llama.cpp's C library through ctypes: the few functions that a benchmark needs.

The structures are those of ``include/llama.h`` as in llama-cpp-python 0.3.36, which ``build_llama_cpp.sh`` builds.
Their layout changes between versions, so a library whose defaults are not where they are expected is refused.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FLASH_ATTENTION = {False: 0, True: 1}
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def _fields(**kinds: str) -> list[tuple[str, Any]]:
    """The fields of a structure, in order, from the names of their types."""
    types = {
        "i32": ctypes.c_int32,
        "u32": ctypes.c_uint32,
        "f32": ctypes.c_float,
        "bool": ctypes.c_bool,
        "ptr": ctypes.c_void_p,
        "size": ctypes.c_size_t,
    }
    return [(name, types[kind]) for name, kind in kinds.items()]


class ModelParams(ctypes.Structure):
    """``llama_model_params``."""

    _fields_ = _fields(
        devices="ptr",
        tensor_buft_overrides="ptr",
        n_gpu_layers="i32",
        split_mode="i32",
        load_mode="i32",
        lazy_mode="i32",
        main_gpu="i32",
        tensor_split="ptr",
        progress_callback="ptr",
        progress_callback_user_data="ptr",
        kv_overrides="ptr",
        vocab_only="bool",
        check_tensors="bool",
        use_extra_bufts="bool",
        no_host="bool",
        no_alloc="bool",
        load_mtp="bool",
    )


class ContextParams(ctypes.Structure):
    """``llama_context_params``."""

    _fields_ = _fields(
        n_ctx="u32",
        n_batch="u32",
        n_ubatch="u32",
        n_seq_max="u32",
        n_rs_seq="u32",
        n_outputs_max="u32",
        n_outputs_max_per_seq="u32",
        n_threads="i32",
        n_threads_batch="i32",
        ctx_type="i32",
        rope_scaling_type="i32",
        pooling_type="i32",
        attention_type="i32",
        flash_attn_type="i32",
        rope_freq_base="f32",
        rope_freq_scale="f32",
        yarn_ext_factor="f32",
        yarn_attn_factor="f32",
        yarn_beta_fast="f32",
        yarn_beta_slow="f32",
        yarn_orig_ctx="u32",
        defrag_thold="f32",
        cb_eval="ptr",
        cb_eval_user_data="ptr",
        type_k="i32",
        type_v="i32",
        abort_callback="ptr",
        abort_callback_data="ptr",
        embeddings="bool",
        offload_kqv="bool",
        no_perf="bool",
        op_offload="bool",
        swa_full="bool",
        kv_unified="bool",
        samplers="ptr",
        n_samplers="size",
        ctx_other="ptr",
    )


class Batch(ctypes.Structure):
    """``llama_batch``."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


_F16 = 1
_POOL_PARAMS_BYTES = 1 << 14
"""More than ``ggml_threadpool_params`` has in any version."""
_MODEL_DEFAULTS = {"n_gpu_layers": -1, "load_mode": -1, "vocab_only": False, "use_extra_bufts": True, "no_alloc": False}
_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "flash_attn_type": -1,
    "type_k": _F16,
    "type_v": _F16,
    "swa_full": True,
    "kv_unified": False,
    "n_samplers": 0,
}
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "llama_backend_init": (None, []),
    "llama_version": (ctypes.c_char_p, []),
    "llama_log_set": (None, [_LOG, ctypes.c_void_p]),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (ctypes.c_void_p, [ctypes.c_char_p, ModelParams]),
    "llama_init_from_model": (ctypes.c_void_p, [ctypes.c_void_p, ContextParams]),
    "llama_free": (None, [ctypes.c_void_p]),
    "llama_attach_threadpool": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "llama_model_get_vocab": (ctypes.c_void_p, [ctypes.c_void_p]),
    "llama_vocab_n_tokens": (ctypes.c_int32, [ctypes.c_void_p]),
    "llama_get_memory": (ctypes.c_void_p, [ctypes.c_void_p]),
    "llama_memory_clear": (None, [ctypes.c_void_p, ctypes.c_bool]),
    "llama_batch_init": (Batch, [ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]),
    "llama_decode": (ctypes.c_int32, [ctypes.c_void_p, Batch]),
    "llama_synchronize": (None, [ctypes.c_void_p]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p, ctypes.c_int32]),
}


class LlamaError(Exception):
    """llama.cpp refused or failed. The text says what and what to do."""


class Library:
    """``libllama`` of the directory ``folder``, with its log discarded.

    Raises:
        LlamaError: it is not there, lacks a function, or is of a version with other structures.
    """

    def __init__(self, folder: Path) -> None:
        path = _library(folder, "llama")
        self._llama = ctypes.CDLL(path)
        self._ggml_base, self._ggml_cpu = (ctypes.CDLL(_library(folder, name)) for name in ("ggml-base", "ggml-cpu"))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._llama, name, None)
            if function is None:
                raise LlamaError(f"{path} has no function {name}: it is of another version; see build_llama_cpp.sh")
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("llama_"), function)
        self._log = _LOG(lambda level, text, data: None)
        self.log_set(self._log, None)
        self._check(path)
        self.backend_init()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"libllama's function llama_{name} is not declared in libllama.py")

    def _check(self, path: str) -> None:
        for params, expected in (
            (self.model_default_params(), _MODEL_DEFAULTS),
            (self.context_default_params(), _CONTEXT_DEFAULTS),
        ):
            for name, value in expected.items():
                if getattr(params, name) != value:
                    raise LlamaError(
                        f"{path}: the default of {type(params).__name__}.{name} is not {value}: the library is of "
                        "another version than build_llama_cpp.sh builds"
                    )

    def thread_pool(self, threads: int) -> int:
        """A pool of ``threads`` threads with llama.cpp's defaults, as its own programs make one."""
        params = ctypes.create_string_buffer(_POOL_PARAMS_BYTES)
        self._ggml_base.ggml_threadpool_params_init(params, ctypes.c_int(threads))
        self._ggml_cpu.ggml_threadpool_new.restype = ctypes.c_void_p
        pool: int | None = self._ggml_cpu.ggml_threadpool_new(params)
        if not pool:
            raise LlamaError(f"llama.cpp could not make a pool of {threads} threads")
        return pool


def _library(folder: Path, name: str) -> str:
    """The path of a shared library."""
    path = folder / f"lib{name}.{'dylib' if sys.platform == 'darwin' else 'so'}"
    if not path.exists():
        raise LlamaError(f"{path} is not there; give the folder build/bin of what build_llama_cpp.sh has built")
    return str(path)


class Model:
    """A loaded checkpoint.

    Args:
        repack: let llama.cpp keep weights in layouts of its own where it has faster kernels for them.

    Raises:
        LlamaError: the file cannot be loaded.
    """

    def __init__(self, library: Library, path: Path, *, repack: bool) -> None:
        params = library.model_default_params()
        params.use_extra_bufts = repack
        self.library = library
        self.pointer = library.model_load_from_file(str(path).encode(), params)
        if not self.pointer:
            raise LlamaError(f"llama.cpp cannot load {path}")

    @property
    def vocab_size(self) -> int:
        return int(self.library.vocab_n_tokens(self.library.model_get_vocab(self.pointer)))


class Context:
    """A KV cache in float16 and the buffers to compute with.

    Args:
        length: tokens of one sequence.
        sequences: how many the cache holds.
        outputs: rows of logits that one call can give; one for each sequence when 0.

    Raises:
        LlamaError: it cannot be made.
    """

    def __init__(
        self, model: Model, *, length: int, threads: int, flash_attention: bool, sequences: int = 1, outputs: int = 0
    ) -> None:
        self.library, self.sequences = model.library, sequences
        params = self.library.context_default_params()
        params.n_ctx, params.n_seq_max = length * sequences, sequences
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = _FLASH_ATTENTION[flash_attention]
        params.swa_full = False
        if outputs:
            params.n_outputs_max, params.n_outputs_max_per_seq = outputs, 0
        self.pointer = self.library.init_from_model(model.pointer, params)
        if not self.pointer:
            raise LlamaError(f"llama.cpp cannot make a context of {sequences} sequences of {length} tokens")
        pool = self.library.thread_pool(threads)
        self.library.attach_threadpool(self.pointer, pool, pool)
        self._memory = self.library.get_memory(self.pointer)
        self._batch = self.library.batch_init(length * sequences, 0, 1)

    def clear(self) -> None:
        """Forget all tokens."""
        self.library.memory_clear(self._memory, False)

    def fill(self, prompts: Sequence[Sequence[int]], start: int = 0, *, all_logits: bool = False) -> None:
        """Make a batch of the tokens of each sequence, from position ``start`` on.

        Args:
            all_logits: logits of every token are wanted, not only of each sequence's last.
        """
        batch, row = self._batch, 0
        for sequence, tokens in enumerate(prompts):
            for index, token in enumerate(tokens):
                batch.token[row], batch.pos[row] = token, start + index
                batch.n_seq_id[row], batch.seq_id[row][0] = 1, sequence
                batch.logits[row] = all_logits or index == len(tokens) - 1
                row += 1
        batch.n_tokens = row

    def decode(self) -> None:
        """Run the batch.

        Raises:
            LlamaError: llama.cpp reports an error.
        """
        code = self.library.decode(self.pointer, self._batch)
        if code:
            raise LlamaError(f"llama_decode returned {code} for {self._batch.n_tokens} tokens")
        self.library.synchronize(self.pointer)

    def logits(self, row: int) -> Any:
        """A pointer to the float32 logits of a row of the batch."""
        return self.library.get_logits_ith(self.pointer, row)

    def close(self) -> None:
        """Free it."""
        self.library.free(self.pointer)
