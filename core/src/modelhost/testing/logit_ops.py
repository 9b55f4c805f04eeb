"""Checks of the operations that sampling needs, for any implementation of them.

:mod:`modelhost.testing.backend` runs them on executables that have them. What they compute is compared with sorts and
sums in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .arrays import ConformanceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from modelhost.api.backend import LogitOps

    Float = npt.NDArray[np.float32]
    Check = Callable[[LogitOps], None]

__all__ = ["LOGIT_CHECKS", "logit_rows", "require_argmax", "require_draw", "require_nucleus", "require_top_k"]

SIZES = (1, 7, 64, 1000, 5003, 40_001)
_LARGE = 10_000
TEMPERATURES = (0.3, 1.0, 7.0)
SHARE_TOLERANCE = 1e-6
"""Of a share of the weights, which are of float32 and added in any order."""


def logit_rows(size: int) -> dict[str, Float]:
    """Rows of ``size`` logits by what is special about them: finite or minus infinity, and at least one is finite."""
    import numpy as np

    rng = np.random.default_rng(size)
    normal = rng.standard_normal(size).astype(np.float32)
    spread = np.full(size, -np.inf, np.float32)
    spread[rng.integers(0, size, max(1, size // 50))] = 1.5
    peaked = normal.copy()
    peaked[rng.integers(0, size, max(1, size // 100))] += 12
    last = np.full(size, -2, np.float32)
    last[-1] = 3
    return {
        "normal": normal * 2,
        "narrow": normal * np.float32(1e-3),
        "peaked": peaked,
        "ties": np.round(normal),
        "equal": np.full(size, -7.25, np.float32),
        "zeros of both signs": np.where(normal > 0, np.float32(0.0), np.float32(-0.0)),
        "minus infinity": spread,
        "the last one": last,
        "as large as can be": np.where(normal > 0, np.float32(3.4e38), np.float32(-3.4e38)),
    }


def _damaged(size: int) -> dict[str, Float]:
    """Rows that nothing can be drawn from."""
    import numpy as np

    rows = {name: np.zeros(size, np.float32) for name in ("NaN", "negative NaN", "infinity", "NaN after infinity")}
    middle = size // 2
    rows["NaN"][middle:] = np.nan
    rows["negative NaN"][middle] = -np.float32(np.nan)
    rows["infinity"][middle] = np.inf
    rows["NaN after infinity"][0] = np.inf
    rows["NaN after infinity"][-1] = np.nan
    return rows | {"nothing": np.full(size, -np.inf, np.float32)}


def require_argmax(ops: LogitOps, sizes: Sequence[int] = SIZES) -> None:
    """The greatest logit of every row, the first of equal ones; NaN before all numbers.

    Raises:
        ConformanceError: another one.
    """
    for size in sizes:
        rows = logit_rows(size) | _damaged(size)
        got = _computed(ops.argmax, rows, {})
        for name, row in rows.items():
            _require(got[name] == row.argmax(), f"argmax of {size} logits, {name}", got[name], row.argmax())


def require_top_k(ops: LogitOps, sizes: Sequence[int] = SIZES) -> None:
    """The greatest logits of every row in falling order, of equal ones the first ids.

    Raises:
        ConformanceError: others, or another order.
    """
    import numpy as np

    for size in sizes:
        rows = logit_rows(size)
        orders = {name: np.argsort(-row, kind="stable") for name, row in rows.items()}
        for count in sorted({min(size, count) for count in (0, 1, 5, 40, 700, size)}):
            got = _computed(lambda own, count=count: ops.top_k(own, count), rows, {})
            for name, order in orders.items():
                same = got[name].shape == (count,) and bool((got[name] == order[:count]).all())
                _require(same, f"the best {count} of {size} logits, {name}", got[name], order[:count])
        damaged = _damaged(size)
        firsts = _computed(lambda own: ops.top_k(own, 1), damaged, {})
        for name, row in damaged.items():
            _require(firsts[name][0] == row.argmax(), f"the best of {size} logits, {name}", firsts[name], row.argmax())


def require_nucleus(ops: LogitOps, sizes: Sequence[int] = SIZES) -> None:
    """The last token of the shortest list of the most likely tokens with a share, with and without a least logit.

    Raises:
        ConformanceError: the tokens before have the share already, or the tokens up to it do not.
    """
    import numpy as np

    for size, temperature, top_p, filtered in _settings(sizes, (0.02, 0.6, 0.95, 0.99999)):
        rows = logit_rows(size) | _damaged(size)
        least = {name: _least(row, filtered) for name, row in rows.items()}
        shared = {"temperatures": np.float64(temperature), "top_ps": np.float64(top_p)}
        got = _computed(ops.nucleus, rows, shared, least=least)
        for name, row in rows.items():
            what = f"nucleus of {top_p} of {size} logits at temperature {temperature}, {name}"
            token = int(got[name])
            if not np.isfinite(row.max()):
                _require(token == -1, what, token, -1)
                continue
            _require(0 <= token < size and row[token] >= least[name], what, token, "a token that takes part")
            order = np.argsort(-row, kind="stable")
            sums = np.cumsum(np.where(row >= least[name], _weights(row, temperature), 0)[order])
            place = int(np.flatnonzero(order == token)[0])
            before = sums[place - 1] / sums[-1] if place else 0.0
            through = sums[place] / sums[-1]
            found = f"{token}: the share is {before:.7f} before and {through:.7f} with it"
            fits = before < top_p + SHARE_TOLERANCE and through >= top_p - SHARE_TOLERANCE
            _require(fits, what, found, f"a token where it reaches {top_p}")


def require_draw(ops: LogitOps, sizes: Sequence[int] = SIZES) -> None:
    """Tokens where the running sum of the weights passes a share, of all tokens and of those within bounds.

    Raises:
        ConformanceError: a token that takes no part or has no weight, or one that the share does not fall on.
    """
    import numpy as np

    for size, temperature, uniform, filtered in _settings(sizes, (0.0, 0.37, 0.8, float(np.nextafter(1, 0)))):
        rows = logit_rows(size) | _damaged(size)
        least = {name: _least(row, filtered) for name, row in rows.items()}
        last = {name: np.int64(size // 2 if filtered else size) for name in rows}
        kept = {name: _kept(row, least[name], last[name]) for name, row in rows.items()}
        rows = {name: row for name, row in rows.items() if kept[name].any() or not np.isfinite(row.max())}
        shared = {"temperatures": np.float64(temperature), "uniforms": np.float64(uniform)}
        got = _computed(ops.draw, rows, shared, least=least, last=last)
        for name, row in rows.items():
            what = f"draw at {uniform} of {size} logits at temperature {temperature}, {name}"
            token = int(got[name])
            if not np.isfinite(row.max()):
                _require(token == -1, what, token, -1)
                continue
            weights = np.where(kept[name], _weights(row, temperature), 0)
            _require(0 <= token < size and weights[token] > 0, what, token, "a token with weight")
            sums = weights.cumsum() / weights.sum()
            before = sums[token - 1] if token else 0.0
            fits = before - SHARE_TOLERANCE <= uniform <= sums[token] + SHARE_TOLERANCE
            _require(fits, what, f"{token} from {before:.7f} to {sums[token]:.7f}", f"a token at {uniform}")


LOGIT_CHECKS: Mapping[str, Check] = {
    "argmax of logits": require_argmax,
    "top k of logits": require_top_k,
    "nucleus of logits": require_nucleus,
    "draw from logits": require_draw,
}


def _settings(sizes: Sequence[int], numbers: Sequence[float]) -> Iterator[tuple[int, float, float, bool]]:
    """Sizes, temperatures, numbers and whether there is a least logit. Of large rows each number comes once."""
    for size in sizes:
        for index, temperature in enumerate(TEMPERATURES):
            for place, number in enumerate(numbers):
                if size < _LARGE or place % len(TEMPERATURES) == index:
                    yield size, temperature, number, place % 2 == 1


def _least(row: Float, filtered: bool) -> np.float32:
    """A logit that half of those above minus infinity reach, or minus infinity."""
    import numpy as np

    finite = row[np.isfinite(row)]
    return np.sort(finite)[finite.size // 2] if filtered and finite.size else np.float32(-np.inf)


def _kept(row: Float, least: np.float32, last: np.int64) -> npt.NDArray[np.bool_]:
    """Which tokens take part in a draw."""
    import numpy as np

    kept: npt.NDArray[np.bool_] = (row > least) | ((row == least) & (np.arange(row.size) <= last))
    return kept


def _weights(row: Float, temperature: float) -> npt.NDArray[np.float64]:
    import numpy as np

    return np.exp((row.astype(np.float64) - float(row.max())) / temperature)


def _computed(
    operation: Callable[..., Any],
    rows: Mapping[str, Float],
    shared: Mapping[str, Any],
    **own: Mapping[str, Any],
) -> dict[str, Any]:
    """What an operation gives for every row, all rows at once.

    Args:
        shared: parameters that are the same for all rows.
        own: parameters by row.

    Raises:
        ConformanceError: it gives something else for a row alone, changes a row or gives another dtype.
    """
    import numpy as np

    arrays = [row.copy() for row in rows.values()]
    parameters = {name: np.full(len(rows), value) for name, value in shared.items()}
    parameters |= {name: np.array([values[row] for row in rows]) for name, values in own.items()}
    together = operation(arrays, **parameters)
    if together.dtype != np.int64 or len(together) != len(rows):
        raise ConformanceError(
            f"{len(rows)} rows of logits gave {together.dtype} {together.shape}, wanted int64 of each"
        )
    for place, (name, row) in enumerate(rows.items()):
        if arrays[place].tobytes() != row.tobytes():
            raise ConformanceError(f"a row of {row.size} logits was changed, {name}")
        if place % 3 == 0:
            alone = operation([row.copy()], **{key: values[place : place + 1] for key, values in parameters.items()})
            same = bool((alone[0] == together[place]).all())
            _require(same, f"{row.size} logits with others, {name}", together[place], alone[0])
    return dict(zip(rows, together, strict=True))


def _require(right: bool, what: str, got: object, wanted: object) -> None:
    if not right:
        raise ConformanceError(f"{what}: got {got}, wanted {wanted}")
