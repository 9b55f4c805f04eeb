"""What start-up imports, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

CODE = """
import json, sys
import modelhost
from modelhost.plugins import HostSettings, boot
registry = boot(settings=HostSettings(), path=sys.argv[1:] or None)
print(json.dumps({
    "modules": sorted(sys.modules),
    "states": {plugin.distribution: plugin.state for plugin in registry.plugins},
}))
"""
HEAVY = {"torch", "numba", "llvmlite", "transformers", "numpy", "pydantic", "gguf", "safetensors", "tokenizers"}


def start(*path: str) -> dict[str, Any]:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", CODE, *path]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return dict(json.loads(output))


def test_start_up_imports_nothing_heavy(site: Any) -> None:
    for number in range(5):
        site.architecture(f"family{number}", f"Family{number}ForCausalLM")
    started = start(str(site.directory))
    assert set(started["states"].values()) == {"ok"}
    assert len(started["states"]) == 6
    assert HEAVY & set(started["modules"]) == set()
    assert not [name for name in started["modules"] if name.endswith(".impl")]


def test_start_up_with_everything_that_is_installed_imports_nothing_heavy() -> None:
    started = start()
    first_party = {name: state for name, state in started["states"].items() if name.startswith("modelhost")}
    assert set(first_party.values()) <= {"ok"}
    assert HEAVY & set(started["modules"]) == set()
