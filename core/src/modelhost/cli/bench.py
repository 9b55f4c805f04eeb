"""``modelhost bench``: how fast a model is on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .loaded import architecture_line, backend_line, boot_plugins, model_line, selection_data, warn_about
from .options import EngineOptions, JsonFlag, ModelArgument
from .terminal import print_json, print_table, spinner

if TYPE_CHECKING:
    from modelhost.bench import LoadTime, Measurements, Profile, Workload
    from modelhost.engine.config import EngineConfig
    from modelhost.engine.model import ServedModel

_WORKLOAD = "Workload"


def _counts(name: str, help: str) -> Any:
    return typer.Option(name, metavar="N,...", help=help, rich_help_panel=_WORKLOAD)


PromptLengths = Annotated[str, _counts("--prompt-lengths", "Tokens of the prompts to process")]
Contexts = Annotated[str, _counts("--context", "Tokens before the first that is timed in a decode")]
Batches = Annotated[str, _counts("--batch", "Sequences that decode together")]
OutputTokens = Annotated[
    int, typer.Option("--output-tokens", min=1, metavar="N", help="Timed steps of a decode", rich_help_panel=_WORKLOAD)
]
Repetitions = Annotated[
    int,
    typer.Option(
        "--repetitions", "-r", min=1, metavar="N", help="Of each measurement, after a first", rich_help_panel=_WORKLOAD
    ),
]
ProfileFlag = Annotated[bool, typer.Option("--profile", help="Time the ops of one decode step and of one prefill")]


def bench(
    model: ModelArgument,
    engine: EngineOptions,
    prompt_lengths: PromptLengths = "32,128,512",
    context: Contexts = "64,512",
    batch: Batches = "1,8",
    output_tokens: OutputTokens = 32,
    repetitions: Repetitions = 5,
    json: JsonFlag = False,
    profile: ProfileFlag = False,
) -> int:
    """Measure how fast MODEL is here: loading, prefill, decoding, and the memory it took.

    Prompts are random tokens, decoding is greedy and never stops early, nothing is taken from a prefix cache.
    A rate is that of the median repetition.
    """
    from modelhost.bench import Workload, load_model, measure_model, peak_memory, profile_model, profiled_executable

    workload = Workload(
        counts("--prompt-lengths", prompt_lengths),
        counts("--context", context),
        counts("--batch", batch),
        output_tokens,
        repetitions,
    )
    config = workload.engine_config(engine.settings())
    registry = boot_plugins(no_plugins=engine.no_plugins)
    with spinner(f"loading {model}"):
        served, load = load_model(model, config, workload, registry)
    warn_about(registry, served.prepared.backend_selection)
    if profile:
        profiled_executable(served)
    with spinner("measuring"):
        measurements = measure_model(served.engine, workload)
        memory = peak_memory()
        profiles = profile_model(served, workload) if profile else []
    if json:
        print_json(bench_data(served, config, workload, load, measurements, memory, profiles))
    else:
        _print_tables(served, load, measurements, memory)
        _print_profiles(profiles)
    return 0


def counts(name: str, text: str) -> tuple[int, ...]:
    """Numbers of an option such as ``32,128,512``, without repeats.

    Raises:
        typer.BadParameter: one is not a number above 0.
    """
    values = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(values) < 1:
        raise typer.BadParameter(f"{name} takes numbers above 0 with commas between them, got {text!r}")
    return tuple(dict.fromkeys(values))


def bench_data(
    served: ServedModel,
    config: EngineConfig,
    workload: Workload,
    load: LoadTime,
    measurements: Measurements,
    memory: int | None,
    profiles: Sequence[Profile],
) -> dict[str, Any]:
    """The result as plain data: times in seconds, sizes in bytes."""
    prepared = served.prepared
    data: dict[str, Any] = {
        "model": str(prepared.source.checkpoint.path),
        "architecture": prepared.source.selection.chosen.id,
        "backend": selection_data(prepared.backend_selection),
        "device": prepared.backend.device,
        "dtype": prepared.backend.dtype,
        "settings": config.model_dump(exclude_none=True),
        "repetitions": workload.repetitions,
        "output_tokens": workload.output_tokens,
        "load": {
            "prepare_seconds": load.prepare,
            "weights_seconds": load.weights,
            "first_token_seconds": load.first_token,
            "total_seconds": load.total,
        },
        **measurements.data(),
        "peak_memory_bytes": memory,
    }
    return data | ({"profile": [one.data() for one in profiles]} if profiles else {})


def _print_tables(served: ServedModel, load: LoadTime, measurements: Measurements, memory: int | None) -> None:
    print_table("Benchmark", [], _facts(served, load, memory))
    print_table(
        "Prefill",
        [">prompt", ">tokens/s", ">first token (ms)"],
        (
            (str(one.prompt_length), _rate(one.tokens_per_second), _milliseconds(one.first_token_seconds))
            for one in measurements.prefill
        ),
    )
    print_table(
        "Decode",
        [">context", ">batch", ">tokens/s", ">p50 (ms)", ">p90 (ms)", ">p99 (ms)"],
        (
            (
                str(one.context),
                str(one.batch),
                _rate(one.tokens_per_second),
                *(_milliseconds(one.latency(percent)) for percent in (50, 90, 99)),
            )
            for one in measurements.decode
        ),
    )


def _facts(served: ServedModel, load: LoadTime, memory: int | None) -> Iterator[tuple[str, str]]:
    from modelhost.engine.memory import gib

    prepared = served.prepared
    yield "model", model_line(prepared.source)
    yield "architecture", architecture_line(prepared.source)
    yield "backend", backend_line(prepared.backend_selection)
    yield (
        "load to first token",
        f"{load.total:.2f} s (prepare {load.prepare:.2f}, weights {load.weights:.2f}, token {load.first_token:.2f})",
    )
    yield "peak memory", "unknown" if memory is None else gib(memory)


def _print_profiles(profiles: Iterable[Profile]) -> None:
    for profile in profiles:
        rows = (
            (
                op.name,
                op.detail,
                str(op.calls),
                _milliseconds(op.seconds),
                f"{100 * op.seconds / profile.seconds:.1f}",
                f"{op.bytes_read / 2**20:.1f}" if op.bytes_read else "",
                f"{op.bytes_read / op.seconds / 1e9:.1f}" if op.bytes_read and op.seconds else "",
            )
            for op in profile.ops
        )
        title = f"Profile of {profile.step}: {_milliseconds(profile.seconds)} ms in all ops"
        print_table(title, ["op", "detail", ">calls", ">ms", ">%", ">MiB read", ">GB/s"], rows)


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"
