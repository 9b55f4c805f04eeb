"""The types of the kernel language: LLVM's, and ``bfloat``, which llvmlite does not have."""

from __future__ import annotations

from llvmlite import ir


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's ``bfloat``. Constants of it do not exist; values come from casts."""

    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


i1, i8, i16, i32, i64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
f16, f32, f64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
bf16 = _BFloat()
ptr = ir.PointerType()
void = ir.VoidType()

_SIZES = {i1: 1, i8: 1, i16: 2, i32: 4, i64: 8, f16: 2, f32: 4, f64: 8, bf16: 2, ptr: 8}


def vector(element: ir.Type, lanes: int) -> ir.Type:
    """The type of ``lanes`` elements."""
    return ir.VectorType(element, lanes)


def element_of(type_: ir.Type) -> ir.Type:
    """The element of a vector, or the type itself."""
    return type_.element if isinstance(type_, ir.VectorType) else type_


def lanes_of(type_: ir.Type) -> int:
    """Elements of a vector; 0 for a scalar."""
    return int(type_.count) if isinstance(type_, ir.VectorType) else 0


def like(type_: ir.Type, element: ir.Type) -> ir.Type:
    """A type of other elements with as many lanes as ``type_``."""
    return vector(element, lanes_of(type_)) if lanes_of(type_) else element


def size_of(type_: ir.Type) -> int:
    """Bytes of a value in memory."""
    return int(_SIZES[element_of(type_)] * (lanes_of(type_) or 1))


def is_float(type_: ir.Type) -> bool:
    """Whether the elements are floating-point numbers."""
    return isinstance(element_of(type_), ir.HalfType | ir.FloatType | ir.DoubleType | _BFloat)


def suffix_of(type_: ir.Type) -> str:
    """How intrinsics name the type, such as ``v16f32``."""
    element = element_of(type_)
    name = "p0" if element == ptr else element.intrinsic_name
    return f"v{lanes_of(type_)}{name}" if lanes_of(type_) else str(name)
