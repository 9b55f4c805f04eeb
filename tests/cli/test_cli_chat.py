"""``modelhost run`` without a prompt: a chat in a pseudo-terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import COUNTING_TEMPLATE, ENDLESS_TEMPLATE
from .terminal import Terminal

REFERENCE = ("--backend", "reference")


@pytest.fixture()
def chat(tiny: str, tmp_path: Path) -> Iterator[Terminal]:
    """A chat whose answers tell how many messages the template saw: 1 ``uvwxyz``, 2 ``vwxyz``, 3 ``wxyz``."""
    template = tmp_path / "count.jinja"
    template.write_text(COUNTING_TEMPLATE)
    with Terminal("run", tiny, "--chat-template", str(template), *REFERENCE) as terminal:
        terminal.expect(">>> ")
        yield terminal


@pytest.fixture()
def endless(tiny: str, tmp_path: Path) -> Iterator[Terminal]:
    """A chat whose answers only end when they are stopped, or with the context."""
    template = tmp_path / "endless.jinja"
    template.write_text(ENDLESS_TEMPLATE)
    with Terminal("run", tiny, "--chat-template", str(template), *REFERENCE) as terminal:
        terminal.expect(">>> ")
        yield terminal


def ask(terminal: Terminal, text: str) -> str:
    """The answer to a message."""
    terminal.send(text + "\n")
    terminal.expect(text + "\n")
    return terminal.expect(">>> ")


def test_conversation_is_kept_until_it_is_reset(chat: Terminal) -> None:
    assert ask(chat, "hello") == "uvwxyz\n"
    assert ask(chat, "again") == "wxyz\n"
    assert ask(chat, "/reset") == "the conversation is forgotten\n"
    assert ask(chat, "hello") == "uvwxyz\n"


def test_system_message(chat: Terminal) -> None:
    assert ask(chat, "/system") == "system message: (none)\n"
    assert ask(chat, "/system be kind") == "system message: be kind\n"
    assert ask(chat, "hello") == "vwxyz\n"


def test_help_and_unknown_commands(chat: Terminal) -> None:
    assert "/system [TEXT]  set the system message" in ask(chat, "/help")
    assert ask(chat, "/rest") == "there is no command /rest. Did you mean /reset?\n"
    assert ask(chat, "/0") == "there is no command /0. /help lists the commands.\n"


@pytest.mark.parametrize("leave", ["/exit\n", "\x04"])
def test_leaving(chat: Terminal, leave: str) -> None:
    assert ask(chat, "") == ""
    chat.send(leave)
    assert chat.exit_code() == 0


def test_start_shows_what_was_chosen(chat: Terminal) -> None:
    assert "architecture  LlamaForCausalLM (modelhost-llama " in chat.screen
    assert "asked for by name" in chat.screen
    assert "/help lists the commands, /exit leaves" in chat.screen


def test_message_of_several_lines(tiny: str, tmp_path: Path) -> None:
    template = tmp_path / "lines.jinja"
    template.write_text("{{ 'w' if messages[-1].content == 'one\\ntwo' else 'y' }}")
    with Terminal("run", tiny, "--chat-template", str(template), *REFERENCE) as terminal:
        terminal.expect(">>> ")
        terminal.send("one\\\n")
        terminal.expect("... ")
        terminal.send("two\n")
        terminal.expect("two\n")
        assert terminal.expect(">>> ") == "xyz\n"


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(endless: Terminal) -> None:
    endless.send("x\n")
    endless.expect("123456789012345")
    endless.interrupt()
    endless.expect(">>> ")
    endless.send("y\n")
    endless.expect("123456789012345")
    endless.interrupt()
    endless.expect(">>> ")
    endless.send("/exit\n")
    assert endless.exit_code() == 0


def test_second_ctrl_c_at_the_prompt_leaves(endless: Terminal) -> None:
    endless.send("x\n")
    endless.expect("123456789012345")
    endless.interrupt()
    endless.expect(">>> ")
    endless.interrupt()
    assert endless.exit_code() == 130
    assert "Traceback" not in endless.screen


def test_first_ctrl_c_at_the_prompt_clears_the_line(chat: Terminal) -> None:
    chat.send("hel")
    chat.expect("hel")
    chat.interrupt()
    chat.expect("(Ctrl-C again, /exit or Ctrl-D to leave)\n>>> ")
    assert ask(chat, "hello") == "uvwxyz\n"
    chat.interrupt()
    chat.expect(">>> ")
    chat.interrupt()
    assert chat.exit_code() == 130


def test_context_that_is_full(tiny: str, tmp_path: Path) -> None:
    template = tmp_path / "all.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}0")
    with Terminal("run", tiny, "--chat-template", str(template), "-c", "32", *REFERENCE) as terminal:
        terminal.expect(">>> ")
        assert "[the context of 32 tokens is full]\n" in ask(terminal, "x")
        answer = ask(terminal, "y")
        assert answer.startswith("error: the prompt has ")
        assert answer.endswith("/reset forgets the conversation\n")
        ask(terminal, "/reset")
        assert "[the context of 32 tokens is full]\n" in ask(terminal, "z")


def test_answer_cannot_control_the_terminal(tiny: str) -> None:
    with Terminal("run", tiny, "--raw", *REFERENCE) as terminal:
        terminal.expect(">>> ")
        assert ask(terminal, "E") == "\N{REPLACEMENT CHARACTER}cdefghijklmnopqrstuvwxyz\n"


def test_without_a_template_every_line_is_continued_on_its_own(plain: str) -> None:
    with Terminal("run", plain, *REFERENCE) as terminal:
        terminal.expect("note: the checkpoint has no chat template")
        terminal.expect(">>> ")
        assert ask(terminal, "w") == "xyz\n"
        assert ask(terminal, "y") == "z\n"
        assert ask(terminal, "/system be kind") == "there is no chat template, so there is no system message\n"


def test_editing_and_history(chat: Terminal) -> None:
    assert ask(chat, "hello") == "uvwxyz\n"
    chat.send("\x1b[A\n")
    chat.expect("hello\n")
    assert chat.expect(">>> ") == "wxyz\n"
