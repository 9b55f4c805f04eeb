"""The weight encodings that the core reads: plain numbers, and every block format that the ``gguf`` package decodes.

Sizes and type numbers of the block formats are those of ``ggml`` (``ggml/src/ggml-common.h`` and
``gguf-py/gguf/constants.py`` of llama.cpp); dtype names are those of the safetensors format.
"""

from __future__ import annotations

from modelhost.api import Encoding


def _encoding(id: str, values: int, size: int, gguf_type: int | None, dtype: str | None = None) -> Encoding:
    return Encoding(
        id,
        f"modelhost.weights.decode:{id}",
        block_values=values,
        block_bytes=size,
        gguf_type=gguf_type,
        safetensors_dtype=dtype,
    )


ENCODINGS: tuple[Encoding, ...] = (
    _encoding("f32", 1, 4, 0, "F32"),
    _encoding("f16", 1, 2, 1, "F16"),
    _encoding("bf16", 1, 2, 30, "BF16"),
    _encoding("f64", 1, 8, 28, "F64"),
    _encoding("f8_e4m3", 1, 1, None, "F8_E4M3"),
    _encoding("f8_e5m2", 1, 1, None, "F8_E5M2"),
    _encoding("f8_e8m0", 1, 1, None, "F8_E8M0"),
    _encoding("bool", 1, 1, None, "BOOL"),
    _encoding("i8", 1, 1, 24, "I8"),
    _encoding("i16", 1, 2, 25, "I16"),
    _encoding("i32", 1, 4, 26, "I32"),
    _encoding("i64", 1, 8, 27, "I64"),
    _encoding("u8", 1, 1, None, "U8"),
    _encoding("u16", 1, 2, None, "U16"),
    _encoding("u32", 1, 4, None, "U32"),
    _encoding("u64", 1, 8, None, "U64"),
    _encoding("q4_0", 32, 18, 2),
    _encoding("q4_1", 32, 20, 3),
    _encoding("q5_0", 32, 22, 6),
    _encoding("q5_1", 32, 24, 7),
    _encoding("q8_0", 32, 34, 8),
    _encoding("q2_k", 256, 84, 10),
    _encoding("q3_k", 256, 110, 11),
    _encoding("q4_k", 256, 144, 12),
    _encoding("q5_k", 256, 176, 13),
    _encoding("q6_k", 256, 210, 14),
    _encoding("iq2_xxs", 256, 66, 16),
    _encoding("iq2_xs", 256, 74, 17),
    _encoding("iq3_xxs", 256, 98, 18),
    _encoding("iq1_s", 256, 50, 19),
    _encoding("iq4_nl", 32, 18, 20),
    _encoding("iq3_s", 256, 110, 21),
    _encoding("iq2_s", 256, 82, 22),
    _encoding("iq4_xs", 256, 136, 23),
    _encoding("iq1_m", 256, 56, 29),
    _encoding("tq1_0", 256, 54, 34),
    _encoding("tq2_0", 256, 66, 35),
    _encoding("mxfp4", 32, 17, 39),
    _encoding("nvfp4", 64, 36, 40),
)
"""Every encoding of the core."""
