"""Packages that people elsewhere might publish: a model, a backend without PyTorch, and some that do not work."""

from __future__ import annotations

from pathlib import Path

from modelhost.api import API
from tests.wheels import write_wheel

MODEL = """
from modelhost.api.blocks import Attention, GatedMLP, PreNormLayer
from modelhost.api.model import DecoderConfig, DecoderLM, RotaryEmbedding


class Acme(DecoderLM):
    def __init__(self, config: DecoderConfig) -> None:
        rotary = RotaryEmbedding(config.rope_parameters, config.head_dim, config.max_position_embeddings)
        super().__init__(config, [
            PreNormLayer(
                Attention.of(config, rotary), GatedMLP.of(config),
                hidden_size=config.hidden_size, eps=config.rms_norm_eps,
            )
            for _ in range(config.num_hidden_layers)
        ])
"""
BACKEND = """
from modelhost.reference import ReferenceBackend


class Backend(ReferenceBackend):
    name = "acme"


def probe():
    return None
"""
HEADER = "from modelhost.api import Architecture, Backend, hookimpl\nAPI = (1, 0)\n"
DECLARES_MODEL = f"""{HEADER}
@hookimpl
def modelhost_architectures():
    yield Architecture("AcmeForCausalLM", target="acme_model.model:Acme")
"""
DECLARES_BACKEND = f"""{HEADER}
@hookimpl
def modelhost_backends():
    yield Backend("acme", target="acme_backend.backend:Backend", probe="acme_backend.backend:probe", priority=50)
"""
DUPLICATE = f"""{HEADER}
@hookimpl
def modelhost_architectures():
    replaces = "modelhost-llama:LlamaForCausalLM"
    yield Architecture("LlamaForCausalLM", target="acme_duplicate.model:Llama", replaces=replaces)
"""
BROKEN = {
    "syntax": "def hook(:\n    pass\n",
    "missing": "import a_module_that_nobody_has\n",
    "raising": "raise RuntimeError('out of order')\n",
    "hanging": "import time\nwhile True:\n    time.sleep(0.05)\n",
    "newer": f"from modelhost.api import RecordOfTheFuture\nAPI = ({API[0]}, {API[1] + 1})\n",
    "older": f"API = ({API[0] - 1}, 9)\n",
}
"""Name -> source of the declaring module of ``acme-NAME``."""
REASONS = {
    "syntax": "acme-syntax 1.0 (entry point 'syntax') is broken: SyntaxError: invalid syntax (plugin.py, line 1)",
    "missing": "it needs the module 'a_module_that_nobody_has', which is not installed",
    "raising": "acme-raising 1.0 (entry point 'raising') is broken: RuntimeError: out of order",
    "hanging": "its declaring module 'acme_hanging.plugin' takes longer than 1 s",
    "newer": f"was built for API {API[0]}.{API[1] + 1}, this modelhost has API {API[0]}.{API[1]}. "
    "Upgrade modelhost: pip install -U modelhost",
    "older": f"was built for API {API[0] - 1}.9, this modelhost has API {API[0]}.{API[1]}. "
    "Upgrade the plugin: pip install -U acme-older",
}
"""Name -> what the error of ``acme-NAME`` says."""


def write_third_party_wheels(folder: Path) -> None:
    """Wheels ``acme-model``, ``acme-backend``, ``acme-duplicate`` and those of :data:`BROKEN`."""
    _write(folder, "model", DECLARES_MODEL, model=MODEL)
    _write(folder, "backend", DECLARES_BACKEND, backend=BACKEND)
    _write(folder, "duplicate", DUPLICATE, model="class Llama: pass\n")
    for name, source in BROKEN.items():
        _write(folder, name, source)


def _write(folder: Path, name: str, plugin: str, **modules: str) -> None:
    sources = {f"acme_{name}/{module}.py": source for module, source in {"plugin": plugin, **modules}.items()}
    sources[f"acme_{name}/__init__.py"] = ""
    write_wheel(folder, f"acme-{name}", modules=sources, entry_points={name: f"acme_{name}.plugin"})
