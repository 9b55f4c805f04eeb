"""Where the time of a step goes, op by op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelhost.api import UnsupportedError
from modelhost.api.backend import OpTime, ProfiledExecutable
from modelhost.engine.engine import Engine
from modelhost.engine.model import ServedModel

from .measure import first_token_seconds, generating
from .workload import Workload

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of the ops of one step, the longest first.

    Attributes:
        step: what the step does.
        ops: one entry for each name and detail.
    """

    step: str
    ops: tuple[OpTime, ...]

    @property
    def seconds(self) -> float:
        """Of all ops."""
        return sum(op.seconds for op in self.ops)

    def data(self) -> dict[str, Any]:
        """As plain data."""
        fields = ("name", "detail", "calls", "seconds", "bytes_read")
        return {"step": self.step, "ops": [{name: getattr(op, name) for name in fields} for op in self.ops]}


class _Profiled:
    """Stands in for an executable and keeps the times of the ops."""

    def __init__(self, executable: ProfiledExecutable) -> None:
        self.executable = executable
        self.times: list[OpTime] = []

    @property
    def weight_bytes(self) -> int:
        return self.executable.weight_bytes

    def run(self, inputs: Mapping[str, npt.NDArray[np.int32]]) -> dict[str, npt.NDArray[np.float32]]:
        """Run the step twice: for the times and for the results."""
        self.times.extend(self.executable.profile(inputs))
        return self.executable.run(inputs)


def profile_model(served: ServedModel, workload: Workload) -> list[Profile]:
    """Profiles of one decode step, of the smallest batch after the longest context, and of the longest prompt.

    Raises:
        UnsupportedError: the backend cannot time its ops.
        MemoryBudgetError: the KV cache does not hold the batch.
    """
    engine, executable = served.engine, profiled_executable(served)
    context, batch, length = max(workload.contexts), min(workload.batches), max(workload.prompt_lengths)
    with generating(engine, workload.prompts(batch, context, engine.vocab_size)), _profiling(engine, executable) as one:
        engine.step()
    [prompt] = workload.prompts(1, length, engine.vocab_size)
    with _profiling(engine, executable) as other:
        first_token_seconds(engine, prompt)
    return [
        Profile(f"decode, context {context}, batch {batch}", added_up(one.times)),
        Profile(f"prefill, {length} tokens", added_up(other.times)),
    ]


def profiled_executable(served: ServedModel) -> ProfiledExecutable:
    """The executable of ``served``, which can time its ops.

    Raises:
        UnsupportedError: it cannot.
    """
    if isinstance(served.engine.executable, ProfiledExecutable):
        return served.engine.executable
    name = served.prepared.backend.name
    raise UnsupportedError(f"the {name} backend cannot time its ops; leave --profile out or name another --backend")


@contextmanager
def _profiling(engine: Engine, executable: ProfiledExecutable) -> Iterator[_Profiled]:
    engine.executable = profiled = _Profiled(executable)
    try:
        yield profiled
    finally:
        engine.executable = executable


def added_up(times: Iterable[OpTime]) -> tuple[OpTime, ...]:
    """One entry for each name and detail, the longest time first."""
    groups: dict[tuple[str, str], list[OpTime]] = {}
    for one in times:
        groups.setdefault((one.name, one.detail), []).append(one)
    sums = (_sum(name, detail, group) for (name, detail), group in groups.items())
    return tuple(sorted(sums, key=lambda one: -one.seconds))


def _sum(name: str, detail: str, group: list[OpTime]) -> OpTime:
    read = [one.bytes_read for one in group if one.bytes_read is not None]
    return OpTime(
        name,
        detail,
        sum(one.calls for one in group),
        sum(one.seconds for one in group),
        sum(read) if len(read) == len(group) else None,
    )
