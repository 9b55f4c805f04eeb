"""Installs, explains, breaks and removes a plugin in a fresh virtual environment. Shows each command and its output.

    python scripts/plugins_transcript.py                  # print it
    python scripts/plugins_transcript.py docs/plugins.md  # put it between the marks in this file

Paths, times and versions of Python are the same in every run. pip needs an index for the dependencies of modelhost.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- transcript: begin -->\n", "<!-- transcript: end -->\n"
PLUGIN = "venv/lib/python3/site-packages/modelhost_llama/plugin.py"
STEPS = (
    ("The core alone. Nothing reads this model yet.", ("modelhost plugins", "modelhost explain tiny")),
    (
        "What an installation would change, and the installation.",
        ("modelhost plugins install llama --dry-run", "modelhost plugins install llama", "modelhost plugins"),
    ),
    ("Who runs the model, and how.", ("modelhost explain tiny",)),
    (
        "The plugin breaks. It is one line in the list, and an error where it is needed.",
        (f"echo 'import a_module_that_is_gone' >> {PLUGIN}", "modelhost plugins", "modelhost explain tiny"),
    ),
    (
        "Its removal works while it is broken.",
        ("modelhost plugins uninstall llama", "modelhost explain tiny"),
    ),
)
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
WIDTH = 110


def build_wheels(folder: Path) -> None:
    """The core and the family llama from this tree, and what they need from the index."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    for package in ("core", "plugins/models/llama"):
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT / package)]
        subprocess.run(build, check=True)
    [core] = folder.glob("modelhost-*.whl")
    subprocess.run([*pip, "download", "-d", str(folder), str(core)], check=True)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a user of the virtual environment in ``folder``."""
    foreign = ("PYTHON", "MODELHOST_", "PIP_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **kept,
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "PIP_CONFIG_FILE": os.devnull,
        "MODELHOST_PLUGIN_CACHE": "0",
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def write_checkpoint(folder: Path) -> None:
    """A small random Llama."""
    from modelhost_llama.llama import Llama

    from modelhost.testing.checkpoints import write_random_checkpoint

    write_random_checkpoint(folder, "LlamaForCausalLM", Llama, SIZES, seed=0)


def transcript(folder: Path) -> str:
    """Run all steps in ``folder`` and return them as Markdown."""
    folder = folder.resolve()
    wheels = folder / "wheels"
    build_wheels(wheels)
    venv.create(folder / "venv", with_pip=True)
    write_checkpoint(folder / "tiny")
    install = ["python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "modelhost"]
    subprocess.run(install, check=True, env=environment(folder), cwd=folder)
    return "\n".join(f"{text}\n\n```console\n{''.join(_commands(commands, folder))}```\n" for text, commands in STEPS)


def _commands(commands: tuple[str, ...], folder: Path) -> Iterator[str]:
    for command in commands:
        real = command.replace("python3/", f"python{sys.version_info[0]}.{sys.version_info[1]}/")
        done = subprocess.run(
            real,
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(folder),
            cwd=folder,
        )
        yield f"$ {command}\n{normalized(done.stdout, folder)}"
        if done.returncode:
            yield f"[exit code {done.returncode}]\n"


def normalized(output: str, folder: Path) -> str:
    """``output`` without what differs from run to run."""
    text = output.replace(f"{folder}{os.sep}", "")
    text = re.sub(r"python3\.\d+", "python3", text)
    times = re.compile(r" *\(?\d+\.\d\)?(?=   (?:ok|broken|incompatible|disabled) )")
    text = times.sub(lambda match: "1.0".rjust(len(match[0])), text)
    text = re.sub(r"^ ─+ *$", " " + "─" * WIDTH, text, flags=re.MULTILINE)
    lines = [line.rstrip() for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = transcript(Path(folder))
    if len(sys.argv) < 2:
        print(text)
        return
    file = Path(sys.argv[1])
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    file.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
