"""``modelhost run`` with a prompt."""

from __future__ import annotations

import contextlib
import os
import signal
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CONTEXT, COUNTING_TEMPLATE, Cli, command, environment, run_process, write_checkpoint

REFERENCE = ("--backend", "reference")


def test_answer_is_all_of_standard_output(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", *REFERENCE)
    assert (result.code, result.out, result.err) == (0, "HI!\n", "")


def test_raw_continues_the_prompt(cli: Cli, tiny: str) -> None:
    assert cli("run", tiny, "w", "--raw", *REFERENCE).out == "xyz\n"
    assert cli("run", tiny, "w", "--no-chat", *REFERENCE).out == "xyz\n"


def test_piped_output_is_not_changed(cli: Cli, tiny: str) -> None:
    assert cli("run", tiny, "E", "--raw", *REFERENCE).out == "\x1bcdefghijklmnopqrstuvwxyz\n"


def test_prompt_from_a_pipe(cli: Cli, tiny: str) -> None:
    assert cli("run", tiny, "--raw", *REFERENCE, stdin=b"uvw\n").out == "xyz\n"


def test_prompt_and_pipe_are_joined_by_a_blank_line(cli: Cli, tiny: str, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ 'a' if messages[0].content == 'summarise:\\n\\nline one\\nline two' else 'y' }}")
    options = ("--chat-template", str(template), *REFERENCE, "-n", "1")
    assert cli("run", tiny, "summarise:", *options, stdin=b"line one\nline two\n").out == "b\n"


def test_prompt_that_is_empty(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, *REFERENCE)
    assert result.code == 1
    assert result.err == "error: the prompt is empty; give a text as argument or on standard input\n"


def test_piped_bytes_that_are_no_text(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, *REFERENCE, stdin=b"ab\xff")
    assert result.code == 1
    assert result.err == "error: standard input is not UTF-8 text: byte 0xff at position 2\n"


def test_system_message_and_template_file(cli: Cli, tiny: str, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(COUNTING_TEMPLATE)
    options = ("--chat-template", str(template), *REFERENCE)
    assert cli("run", tiny, "hello", *options).out == "uvwxyz\n"
    assert cli("run", tiny, "hello", "-sys", "be kind", *options).out == "vwxyz\n"
    assert cli("run", tiny, "hello", "--system", "be kind", *options).out == "vwxyz\n"


def test_template_by_name(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "model")
    (model / "chat_templates").mkdir()
    (model / "chat_templates" / "count.jinja").write_text(COUNTING_TEMPLATE)
    assert cli("run", str(model), "hello", "--chat-template", "count", *REFERENCE).out == "uvwxyz\n"
    result = cli("run", str(model), "hello", "--chat-template", "cuont", *REFERENCE)
    assert result.code == 1
    assert result.err == (
        "error: --chat-template cuont: there is no such file, and the checkpoint has no template of that name; "
        "its templates are count, default\n"
    )


def test_system_message_without_template_is_wrong_usage(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", "--raw", "--system", "be kind")
    assert result.code == 2
    assert "a system message needs a chat template" in result.err


def test_checkpoint_without_template(cli: Cli, plain: str) -> None:
    result = cli("run", plain, "w", *REFERENCE)
    assert (result.code, result.out) == (0, "xyz\n")
    assert result.err == (
        "note: the checkpoint has no chat template, so the text is continued as it is (see --chat-template)\n"
    )


def test_max_tokens_and_stop(cli: Cli, tiny: str) -> None:
    assert cli("run", tiny, "0", "--raw", "-n", "12", *REFERENCE).out == "123456789012\n"
    assert cli("run", tiny, "0", "--raw", "--max-tokens", "3", *REFERENCE).out == "123\n"
    assert cli("run", tiny, "a", "--raw", "--stop", "mn", "--stop", "fg", *REFERENCE).out == "bcde\n"


def test_without_max_tokens_the_answer_fills_the_context(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "0", "--raw", "-c", "32", "--verbose", *REFERENCE)
    assert result.code == 0
    assert result.out == "".join(str(n % 10) for n in range(1, 31)) + "\n"
    assert "[the context of 32 tokens is full]\n" in result.err


def test_sampling_options_reach_the_sampler(cli: Cli, tmp_path: Path) -> None:
    model = str(write_checkpoint(tmp_path / "weak", strength=0.1))

    def output(prompt: str, *options: str) -> str:
        result = cli("run", model, prompt, "--raw", "-n", "3", *options, *REFERENCE)
        assert result.code == 0
        return result.out.removesuffix("\n")

    greedy = ("--temp", "0")
    assert output("A", *greedy) == "BAB"
    assert output("A", *greedy, "--presence-penalty", "2") == "BAC"
    assert output("A", *greedy, "--frequency-penalty", "2") == "BAC"
    assert output("BA", *greedy, "--repetition-penalty", "3")[0] == "C"
    assert output("A", "--temperature", "5", "--top-k", "1") == "BAB"
    assert output("A", "--temperature", "5", "--top-p", "0.001", "--top-k", "0") == "BAB"
    assert output("A", "--temperature", "1", "--min-p", "1", "--top-k", "0") == "BAB"
    free = ("--temperature", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n", "20")
    assert output("A", *free, "--seed", "1") == output("A", *free, "--seed", "1")
    assert output("A", *free, "--seed", "1") != output("A", *free, "--seed", "2")


def test_sampling_of_the_checkpoint_is_used_where_it_states_some(cli: Cli, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "weak", strength=0.1)
    (model / "generation_config.json").write_text('{"temperature": 5.0, "top_k": 1}')
    assert cli("run", str(model), "A", "--raw", "-n", "9", *REFERENCE).out == "BABABABAB\n"
    assert cli("run", str(model), "A", "--raw", "-n", "9", "--top-k", "0", *REFERENCE).out != "BABABABAB\n"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--top-p", "2", "top_p must be a number in (0, 1], got 2.0"),
        ("--temp", "-1", "temperature must be a number"),
        ("--frequency-penalty", "3", "frequency_penalty must be a number in [-2, 2], got 3.0"),
        ("--presence-penalty", "-3", "presence_penalty must be a number in [-2, 2], got -3.0"),
        ("--repetition-penalty", "0", "repetition_penalty must be"),
    ],
)
def test_sampling_values_that_are_not_allowed(cli: Cli, tiny: str, option: str, value: str, message: str) -> None:
    result = cli("run", tiny, "a", option, value, *REFERENCE)
    assert result.code == 1
    assert result.err.startswith(f"error: {message}")
    assert result.out == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--max-tokens", "0"),
        ("--top-k", "x"),
        ("--dtype", "int3"),
        ("-c", "0"),
        ("--bakend", "x"),
        ("--memory-bytes", "2Q"),
    ],
)
def test_wrong_options_are_wrong_usage(cli: Cli, tiny: str, options: tuple[str, ...]) -> None:
    result = cli("run", tiny, "a", *options)
    assert result.code == 2
    assert options[0] in result.err
    assert result.out == ""


def test_output_that_cannot_show_a_character(cli: Cli, tiny: str) -> None:
    assert cli("run", tiny, "Q", "--raw", *REFERENCE).out == "é\n"
    result = run_process("run", tiny, "Q", "--raw", *REFERENCE, env={"PYTHONIOENCODING": "ascii"})
    assert (result.code, result.out, result.err) == (0, "?\n", "")


def test_model_that_does_not_exist(cli: Cli) -> None:
    result = cli("run", "/no/such/model", "a")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "error: /no/such/model does not exist. Give a directory with config.json, a .gguf file, or a Hugging Face id "
        "such as org/name.\n"
    )


@pytest.mark.parametrize("env", [{"HF_HUB_OFFLINE": "1"}, {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_hub_id_without_network(tmp_path: Path, env: dict[str, str]) -> None:
    result = run_process("plan", "org/no-such-model", env={**env, "HF_HOME": str(tmp_path)})
    assert result.code == 1
    assert result.err.startswith(
        "error: org/no-such-model is neither a path nor in the Hugging Face cache, and it could not be downloaded: "
    )
    assert "Traceback" not in result.err


def test_hub_that_hangs_up(tmp_path: Path) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        env = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        result = run_process("plan", "org/model", env=env)
        server.shutdown()
    assert result.code == 1
    assert result.err.startswith(
        "error: org/model is neither a path nor in the Hugging Face cache, and it could not be"
    )


def test_hub_id_that_cannot_be_one(cli: Cli) -> None:
    result = cli("plan", "org/mo--del")
    assert result.code == 1
    assert result.err.startswith(
        "error: org/mo--del is neither a path nor in the Hugging Face cache, and it could not be downloaded: "
    )


def test_traceback_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELHOST_DEBUG", "1")
    result = cli("run", "/no/such/model", "a")
    assert result.code == 1
    assert "Traceback (most recent call last)" in result.err
    assert result.err.splitlines()[-1].startswith("error: /no/such/model does not exist.")


def test_prompt_longer_than_the_context(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "x" * 40, "--raw", "-c", "32", *REFERENCE)
    assert result.code == 1
    assert result.err.startswith("error: the prompt has 41 tokens and the context holds 32")


def test_verbose_says_what_was_chosen_and_how_long_it_took(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", "--verbose", *REFERENCE)
    assert result.out == "HI!\n"
    lines = result.err.splitlines()
    assert lines[0].split() == ["model", f"{tiny}/", "(safetensors)"]
    assert lines[1].startswith("architecture  LlamaForCausalLM (modelhost-llama ")
    assert lines[2].startswith("backend       reference (modelhost ")
    assert lines[2].endswith(" on cpu in float32: asked for by name")
    assert lines[3].startswith("memory        ")
    assert lines[3].endswith(f"; context {CONTEXT:,} tokens")
    assert lines[-1].startswith("prompt: 8 tokens, ")
    assert "; answer: 4 tokens, " in lines[-1]


def test_timings_alone(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", "--show-timings", *REFERENCE)
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("prompt: 8 tokens, ")


def test_tokenizer_of_another_checkpoint(cli: Cli, tiny: str, tmp_path: Path) -> None:
    bare = write_checkpoint(tmp_path / "bare")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (bare / file).unlink()
    assert cli("run", str(bare), "hello", "--tokenizer", tiny, *REFERENCE).out == "HI!\n"
    result = cli("run", str(bare), "hello", *REFERENCE)
    assert result.code == 1
    assert "error: the model has no tokenizer" in result.err


def test_without_plugins_the_error_names_the_package(cli: Cli, tiny: str) -> None:
    result = cli("run", tiny, "hello", "--no-plugins", *REFERENCE)
    assert result.code == 1
    assert result.err.startswith("error: no installed plugin provides architecture 'LlamaForCausalLM'.")
    assert "modelhost-llama" in result.err


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("run", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def read_digits(process: subprocess.Popen[bytes], count: int) -> bytes:
    assert process.stdout is not None
    return os.read(process.stdout.fileno(), 1) + process.stdout.read(count - 1)


def test_answer_is_streamed_and_ctrl_c_ends_it(tiny: str) -> None:
    with start(tiny, "0", "--raw", *REFERENCE) as process:
        assert read_digits(process, 15) == b"123456789012345"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out.endswith(b"\n")
    assert err == b""


def test_ctrl_c_before_the_model_is_loaded(tiny: str, tmp_path: Path) -> None:
    """The command waits for a template from a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with start(tiny, "0", "--chat-template", str(pipe), *REFERENCE) as process:
        writer = open_writer(pipe)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        os.close(writer)
    assert (process.returncode, out, err) == (130, b"", b"")


def open_writer(pipe: Path) -> int:
    """The writing end of a pipe, as soon as somebody reads it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.02)
    raise TimeoutError(f"nobody reads {pipe}")


def test_reader_that_goes_away(tiny: str) -> None:
    with start(tiny, "0", "--raw", *REFERENCE) as process:
        assert read_digits(process, 5) == b"12345"
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=20)
    assert (process.returncode, err) == (141, b"")


def test_real_checkpoint(cli: Cli, checkpoint_file: Callable[[str], Path]) -> None:
    model = str(checkpoint_file("smollm2"))
    result = cli("run", model, "What is the capital of France?", "--temp", "0", "-n", "6", *REFERENCE)
    assert (result.code, result.out) == (0, "The capital of France is Paris\n")
