"""Random weights and the comparison of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from modelhost.api import ModelHostError
from modelhost.api.backend import Parameter, Weight
from modelhost.weights.load import concatenate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Float = npt.NDArray[np.float32]


def random_values(shape: tuple[int, ...], name: str, scale: float = 1.0) -> Float:
    """Normally distributed float32 values that bfloat16 holds exactly; the same for the same ``name``.

    So a backend that computes in a narrower dtype is judged by its arithmetic, not by the rounding of its inputs.
    """
    import numpy as np

    values = np.random.default_rng(crc32(name.encode())).standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def random_weight(name: str, shape: tuple[int, ...], encoding: str = "f32") -> Weight:
    """A weight of random values in one of the plain encodings or in a block format that ``gguf`` can produce."""
    from importlib import import_module

    import numpy as np

    values = random_values(shape, name, scale=shape[-1] ** -0.5 if len(shape) > 1 else 0.5)
    if encoding == "f32":
        blocks = values.view(np.uint8)
    else:
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import quantize

        blocks = quantize(values, GGMLQuantizationType[encoding.upper()]).view(np.uint8)
    decode: Callable[[Any], Float] = getattr(import_module("modelhost.weights.decode"), encoding)
    return Weight(name, encoding, shape, blocks.reshape(*shape[:-1], -1), decode)


class RandomWeights:
    """Loads random weights, the same for the same parameter name, and records what was asked for.

    Attributes:
        encodings: encoding of a parameter by its name; ``"f32"`` for all others.
        loaded: every weight handed out, in order.
    """

    def __init__(self, encodings: Mapping[str, str] | None = None) -> None:
        self.encodings = dict(encodings or {})
        self.loaded: list[tuple[Parameter, Weight]] = []

    def encoding_of(self, parameter: Parameter) -> str:
        """The encoding of ``parameter``."""
        return self.encodings.get(parameter.name, "f32")

    def __call__(self, parameter: Parameter) -> Weight:
        """The weight of ``parameter``; of a merged one its parts follow each other, as in a loaded model."""
        parts = [self._random(part) for part in parameter.parts or (parameter,)]
        weight = concatenate(parts, parameter.name) if len(parts) > 1 else parts[0]
        self.loaded.append((parameter, weight))
        return weight

    def _random(self, parameter: Parameter) -> Weight:
        if parameter.dtype != "int32":
            return random_weight(parameter.name, parameter.sizes, self.encoding_of(parameter))
        import numpy as np

        numbers = np.floor(np.abs(random_values(parameter.sizes, parameter.name, scale=8.0)))
        weight = random_weight(parameter.name, parameter.sizes)
        return replace(weight, blocks=numbers.view(np.uint8).reshape(weight.blocks.shape))


def require_close(got: Mapping[str, Float], wanted: Mapping[str, Float], tolerance: float, what: str) -> None:
    """Compare results by the largest difference relative to the largest wanted magnitude.

    Args:
        tolerance: 0 for bit-identical.

    Raises:
        ConformanceError: they differ in names, shapes or dtype, by more than ``tolerance``, or hold NaN.
    """
    import numpy as np

    if set(got) != set(wanted):
        raise ConformanceError(f"{what}: outputs are {sorted(got)}, wanted {sorted(wanted)}")
    for name, reference in wanted.items():
        result = got[name]
        if result.dtype != np.float32 or result.shape != reference.shape:
            found = f"{result.dtype} {result.shape}"
            raise ConformanceError(f"{what}: output {name!r} is {found}, wanted float32 {reference.shape}")
        if not result.size:
            continue
        error = np.abs(result - reference) / max(float(np.abs(reference).max()), 1e-30)
        if not error.max() <= tolerance:
            worst = tuple(map(int, np.unravel_index(np.argmax(error), error.shape)))
            raise ConformanceError(
                f"{what}: output {name!r} is off by {error.max():.3g} of the largest value, allowed {tolerance:.3g}; "
                f"at {worst} got {result[worst]:.7g}, wanted {reference[worst]:.7g}"
            )


class ConformanceError(ModelHostError, AssertionError):
    """A plugin does not do what its contract says."""
