from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from modelhost.api import API, PluginError
from modelhost.plugins import Plan, select_architecture, select_backend


@pytest.fixture
def plan(site: Any) -> Plan:
    site.architecture("foo", "FooForCausalLM")
    site.backend("fast", 'devices=("cuda",), dtypes=("bfloat16",)', version="2.1")
    site.plugin("bad", "1 / 0\n")
    registry = site.boot()
    architecture = select_architecture(registry, "FooForCausalLM", "hf")
    return Plan.make("/models/foo", architecture, select_backend(registry), registry)


def test_what_is_in_a_plan(plan: Plan) -> None:
    assert plan.model == "/models/foo"
    assert (plan.architecture.id, plan.architecture.target) == ("FooForCausalLM", "modelhost_foo.impl:Impl")
    assert (plan.backend.id, plan.backend.distribution, plan.backend.version) == ("fast", "modelhost-fast", "2.1")
    assert (plan.device, plan.dtype, plan.api) == ("cuda", "bfloat16", API)
    assert plan.plugins == (("modelhost", "0.1.0"), ("modelhost-fast", "2.1"), ("modelhost-foo", "1.0"))


def test_json_and_pickle_round_trip(plan: Plan) -> None:
    for copy in (Plan.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert copy == plan
        assert copy.digest() == plan.digest()


def test_the_digest_changes_with_every_field(plan: Plan) -> None:
    others = [
        replace(plan, model="/models/bar"),
        replace(plan, architecture=replace(plan.architecture, target="modelhost_foo.impl:Other")),
        replace(plan, backend=replace(plan.backend, version="2.2")),
        replace(plan, device="cuda:1"),
        replace(plan, dtype="float32"),
        replace(plan, api=(API[0], API[1] + 1)),
        replace(plan, plugins=plan.plugins[:-1]),
    ]
    assert len({plan.digest(), *(other.digest() for other in others)}) == len(others) + 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"architecture": {}}', '{"architecture": 1, "backend": 2}'])
def test_text_that_is_not_a_plan(text: str) -> None:
    with pytest.raises(PluginError, match=r"^not a plan: "):
        Plan.from_json(text)


def installed(plan: Plan) -> Plan:
    """Without modelhost itself, whose version in the test's directory may be hidden by the real one."""
    return replace(plan, plugins=plan.plugins[1:])


def test_a_plan_that_fits(plan: Plan) -> None:
    installed(plan).verify()


def test_a_plan_that_does_not_fit(plan: Plan) -> None:
    other = replace(
        plan, api=(9, 9), plugins=(("modelhost-fast", "2.0"), ("modelhost-foo", "1.0"), ("modelhost-gone", "3.0"))
    )
    with pytest.raises(PluginError) as raised:
        other.verify()
    assert str(raised.value) == (
        "this process does not match the plan:\n"
        f"  modelhost API: 9.9 in the plan, {API[0]}.{API[1]} here\n"
        "  modelhost-fast: 2.0 in the plan, 2.1 here\n"
        "  modelhost-gone: 3.0 in the plan, not installed here"
    )


def test_a_worker_imports_exactly_the_plan(plan: Plan, site: Any) -> None:
    code = (
        "import sys\nfrom modelhost.plugins import Plan\nplan = Plan.from_json(sys.argv[1])\nplan.verify()\n"
        "print(plan.architecture.load().__qualname__, plan.digest())\n"
        "print(sorted(name for name in sys.modules if name.startswith('modelhost_')))\n"
    )
    command = [sys.executable, "-c", code, installed(plan).to_json()]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    assert output == [f"Impl {installed(plan).digest()}", "['modelhost_foo', 'modelhost_foo.impl']"]


def test_a_planned_target_that_cannot_be_imported(plan: Plan) -> None:
    with pytest.raises(PluginError) as raised:
        replace(plan.backend, target="modelhost_fast.gone:Impl").load()
    assert str(raised.value) == (
        "modelhost-fast 2.1, backend 'fast' is broken: modelhost_fast.gone:Impl cannot be imported: its own module "
        "'modelhost_fast.gone' is missing from the installation (modelhost_fast.gone:Impl). "
        "Remove it with: pip uninstall modelhost-fast"
    )
