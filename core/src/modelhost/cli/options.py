"""Options that several commands take, each defined once. Names are those of vLLM and llama.cpp."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(IB|B)?", re.IGNORECASE)


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object given as an option.

    Raises:
        typer.BadParameter: the text is not one.
    """
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{text!r} is not a JSON object")
    return value


def parse_size(text: str) -> int:
    """Bytes of a size such as ``2GiB``, ``512M``, ``1.5G`` (powers of 1024), ``2GB`` (powers of 1000) or ``1048576``.

    Raises:
        typer.BadParameter: it is not a size above 0.
    """
    match = _SIZE.fullmatch(text.strip())
    number, unit, suffix = match.groups() if match else ("0", "", None)
    factor = _DECIMAL.get((unit + (suffix or "")).upper(), _UNITS[unit.upper()])
    size = int(float(number) * factor)
    if size < 1:
        raise typer.BadParameter(f"{text!r} is not a size above 0, such as 2GiB, 512M or a number of bytes")
    return size


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A directory, a .gguf file, or a Hugging Face id such as org/name", show_default=False
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON")]
NoPluginsFlag = Annotated[bool, typer.Option("--no-plugins", help="Use modelhost's own declarations only")]
TokenizerOption = Annotated[
    str | None,
    typer.Option("--tokenizer", metavar="PATH", help="Directory, .gguf file or id of another tokenizer"),
]

_ENGINE = "Engine"
_SAMPLING = "Sampling (what is not given comes from the checkpoint)"


@dataclass(frozen=True)
class EngineOptions:
    """How a model is run."""

    backend: Annotated[
        str | None,
        typer.Option("--backend", metavar="NAME", help="Kernel backend; the best usable one", rich_help_panel=_ENGINE),
    ] = None
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="Such as cpu or cuda:0", rich_help_panel=_ENGINE)
    ] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option("--dtype", help="Of activations; auto is the backend's default", rich_help_panel=_ENGINE),
    ] = "auto"
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            "-t",
            min=1,
            metavar="N",
            help="That the backend computes with; its own choice",
            rich_help_panel=_ENGINE,
        ),
    ] = None
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Compute prompt tokens and generated ones alike: a cached answer that is re-used in a prompt then "
            "changes nothing",
            rich_help_panel=_ENGINE,
        ),
    ] = False
    max_model_len: Annotated[
        int | None,
        typer.Option(
            "--max-model-len",
            "--ctx-size",
            "-c",
            min=1,
            metavar="TOKENS",
            help="Context: tokens of prompt and answer together; what the model was trained for, or as much as fits",
            rich_help_panel=_ENGINE,
        ),
    ] = None
    kv_cache_memory_bytes: Annotated[
        int | None,
        typer.Option(
            "--kv-cache-memory-bytes",
            parser=parse_size,
            metavar="SIZE",
            help="Size of the KV cache, such as 2GiB or 512M",
            rich_help_panel=_ENGINE,
        ),
    ] = None
    memory_bytes: Annotated[
        int | None,
        typer.Option(
            "--memory-bytes",
            parser=parse_size,
            metavar="SIZE",
            help="Budget for weights, cache and workspace together; the free memory",
            rich_help_panel=_ENGINE,
        ),
    ] = None
    max_num_seqs: Annotated[
        int,
        typer.Option("--max-num-seqs", min=1, metavar="N", help="Sequences in one step", rich_help_panel=_ENGINE),
    ] = 1
    max_num_batched_tokens: Annotated[
        int,
        typer.Option(
            "--max-num-batched-tokens",
            "--batch-size",
            "-b",
            min=1,
            metavar="N",
            help="Tokens in one step; longer prompts are processed in chunks",
            rich_help_panel=_ENGINE,
        ),
    ] = 2048
    tool_call_parser: Annotated[
        str,
        typer.Option(
            "--tool-call-parser",
            metavar="NAME",
            help="Finds calls of tools in answers; auto takes the one that fits the model, none leaves them as text",
            rich_help_panel=_ENGINE,
        ),
    ] = "auto"
    reasoning_parser: Annotated[
        str,
        typer.Option(
            "--reasoning-parser",
            metavar="NAME",
            help="Separates reasoning from answers; auto takes the one that fits the model, none leaves it as text",
            rich_help_panel=_ENGINE,
        ),
    ] = "auto"
    speculative_config: Annotated[
        dict[str, Any] | None,
        typer.Option(
            "--speculative-config",
            parser=parse_object,
            metavar="JSON",
            help='Speculator and its settings, such as {"method": "ngram", "num_speculative_tokens": 5}',
            rich_help_panel=_ENGINE,
            show_default=False,
        ),
    ] = None
    no_plugins: NoPluginsFlag = False

    def settings(self) -> dict[str, Any]:
        """The fields of :class:`~modelhost.engine.config.EngineConfig` that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "no_plugins"}


@dataclass(frozen=True)
class SamplingOptions:
    """How an answer is sampled."""

    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            "--n-predict",
            "-n",
            min=1,
            metavar="N",
            help="Most tokens of an answer; until the context is full when not given",
            rich_help_panel=_SAMPLING,
        ),
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature", "--temp", metavar="X", help="0 takes the likeliest token", rich_help_panel=_SAMPLING
        ),
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", metavar="X", help="Mass of the likeliest tokens to keep", rich_help_panel=_SAMPLING),
    ] = None
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", metavar="N", help="Number of likeliest tokens to keep", rich_help_panel=_SAMPLING),
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option(
            "--min-p", metavar="X", help="Least probability, relative to the likeliest", rich_help_panel=_SAMPLING
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", "-s", metavar="N", help="Of the random numbers", rich_help_panel=_SAMPLING)
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            "--repetition-penalty",
            "--repeat-penalty",
            metavar="X",
            help="Above 1 discourages tokens of prompt and answer",
            rich_help_panel=_SAMPLING,
        ),
    ] = None
    presence_penalty: Annotated[
        float | None,
        typer.Option("--presence-penalty", metavar="X", help="Against tokens in the answer", rich_help_panel=_SAMPLING),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        typer.Option(
            "--frequency-penalty", metavar="X", help="The same, for each time they are in it", rich_help_panel=_SAMPLING
        ),
    ] = None
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", metavar="TEXT", help="End the answer before this text; repeatable", rich_help_panel=_SAMPLING
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The fields of :class:`~modelhost.SamplingParams` to set; ``max_tokens`` always."""
        values = {name: value for name, value in asdict(self).items() if value is not None and value != []}
        return {"max_tokens": None, **values}


@dataclass(frozen=True)
class ChatOptions:
    """How a prompt is made of what the user wrote."""

    system: Annotated[
        str | None, typer.Option("--system", "-sys", metavar="TEXT", help="System message", show_default=False)
    ] = None
    chat_template: Annotated[
        str | None,
        typer.Option(
            "--chat-template",
            metavar="FILE",
            help="Jinja file in place of the checkpoint's template, or the name of one of its templates",
            show_default=False,
        ),
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", "--no-chat", help="Complete the prompt as it is, without a template")
    ] = False
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools",
            metavar="FILE",
            help="JSON list of tools in OpenAI's form; calls are shown, not carried out",
            show_default=False,
        ),
    ] = None
    chat_template_kwargs: Annotated[
        str | None,
        typer.Option(
            "--chat-template-kwargs",
            metavar="JSON",
            help='Variables of the chat template, such as {"enable_thinking": false}',
            show_default=False,
        ),
    ] = None
    tokenizer: TokenizerOption = None
