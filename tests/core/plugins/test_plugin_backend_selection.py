from __future__ import annotations

from typing import Any

import pytest

from modelhost.api import PluginError, UnsupportedError
from modelhost.plugins import select_backend

CAN = "def probe(): return None\nclass Impl: pass\n"
CANNOT = "def probe(): return 'no such hardware'\nclass Impl: pass\n"
RAISES = "def probe():\n    raise OSError('driver is on fire')\nclass Impl: pass\n"


def probed(site: Any, name: str, impl: str, arguments: str = "") -> None:
    site.backend(name, f'probe="modelhost_{name}.impl:probe", {arguments}', impl=impl)


def failure(error: type[Exception], site: Any, *arguments: Any, **names: Any) -> str:
    with pytest.raises(error) as raised:
        select_backend(site.boot(), *arguments, **names)
    return str(raised.value)


def test_only_the_fallback_is_left(site: Any) -> None:
    selection = select_backend(site.boot())
    assert (selection.chosen.id, selection.device, selection.dtype) == ("reference", "cpu", "float32")
    assert selection.explain() == (
        "backend: reference (modelhost 0.1.0)\n"
        "  chosen       reference (modelhost 0.1.0): a fallback, and no other is usable\n"
        "no other backend is usable, so the slow 'reference' one is used. "
        "Install a faster one: pip install modelhost-cpu"
    )


def test_the_fallback_by_name_needs_no_warning(site: Any) -> None:
    site.backend("fast")
    selection = select_backend(site.boot(), "reference")
    assert selection.warning is None
    assert selection.explain() == (
        "backend: reference (modelhost 0.1.0)\n"
        "  chosen       reference (modelhost 0.1.0): asked for by name\n"
        "  rejected     fast (modelhost-fast 1.0): backend 'reference' was asked for"
    )


def test_the_highest_priority_that_can_run_wins(site: Any) -> None:
    probed(site, "gpu", CANNOT, 'priority=9, devices=("cuda",)')
    probed(site, "fast", CAN, 'priority=5, dtypes=("bfloat16", "float32")')
    probed(site, "slow", "raise RuntimeError('imported without need')\n", "priority=1")
    selection = select_backend(site.boot())
    assert (selection.chosen.id, selection.device, selection.dtype) == ("fast", "cpu", "bfloat16")
    assert selection.explain() == (
        "backend: fast (modelhost-fast 1.0)\n"
        "  chosen       fast (modelhost-fast 1.0): priority 5\n"
        "  rejected     gpu (modelhost-gpu 1.0): no such hardware\n"
        "  lower        slow (modelhost-slow 1.0): priority 1 is below 5 of fast\n"
        "  lower        reference (modelhost 0.1.0): a fallback, used when no other backend is usable"
    )


def test_every_other_backend_says_no(site: Any) -> None:
    probed(site, "cpu", CANNOT)
    selection = select_backend(site.boot())
    assert selection.chosen.id == "reference"
    assert selection.warning == "no other backend is usable, so the slow 'reference' one is used."
    assert "  rejected     cpu (modelhost-cpu 1.0): no such hardware" in selection.explain()


def test_device_and_dtype_narrow_the_choice(site: Any) -> None:
    site.backend("gpu", 'priority=9, devices=("cuda",), dtypes=("bfloat16",)')
    site.backend("fast", 'priority=5, devices=("cpu", "cuda"), dtypes=("float32", "float16")')
    registry = site.boot()
    assert select_backend(registry, device="cpu").chosen.id == "fast"
    on_gpu = select_backend(registry, device="cuda:1", dtype="float16")
    assert (on_gpu.chosen.id, on_gpu.device, on_gpu.dtype) == ("fast", "cuda:1", "float16")
    assert on_gpu.candidates[1:3] == (
        type(on_gpu.candidates[0])("gpu", "modelhost-gpu 1.0", "rejected", "computes in bfloat16, not in 'float16'"),
        type(on_gpu.candidates[0])("reference", "modelhost 0.1.0", "rejected", "runs on cpu, not on 'cuda:1'"),
    )


def test_nothing_runs_on_the_device(site: Any) -> None:
    assert failure(UnsupportedError, site, device="cuda", dtype="float16") == (
        "no installed backend can run on device 'cuda' with dtype 'float16'. "
        "Install one: pip install modelhost-cuda, or pip install modelhost-torch\n"
        "  rejected     reference (modelhost 0.1.0): runs on cpu, not on 'cuda'"
    )


def test_equal_priorities_are_refused(site: Any) -> None:
    site.backend("one", "priority=5")
    site.backend("two", "priority=5")
    site.backend("three", "priority=4")
    assert failure(PluginError, site) == (
        "backends 'one' (modelhost-one 1.0) and 'two' (modelhost-two 1.0) can both run with priority 5. "
        "Choose with --backend one or --backend two\n"
        "  usable       one (modelhost-one 1.0): priority 5\n"
        "  usable       two (modelhost-two 1.0): priority 5\n"
        "  lower        three (modelhost-three 1.0): priority 4 is below 5 of one\n"
        "  lower        reference (modelhost 0.1.0): a fallback, used when no other backend is usable"
    )
    assert select_backend(site.boot(), "two").chosen.id == "two"


def test_equal_priorities_where_one_cannot_run(site: Any) -> None:
    probed(site, "one", CANNOT, "priority=5")
    probed(site, "two", CAN, "priority=5")
    assert select_backend(site.boot()).chosen.id == "two"


def test_a_probe_that_raises_is_fatal(site: Any) -> None:
    probed(site, "gpu", RAISES, "priority=9")
    site.backend("fast")
    file = site.directory / "modelhost_gpu" / "impl.py"
    reason = (
        "modelhost-gpu 1.0, backend 'gpu' is broken: its probe failed: OSError: driver is on fire "
        f"({file}:2). Remove it with: pip uninstall modelhost-gpu"
    )
    assert failure(PluginError, site) == f"{reason}\nTo go on without it, name the backend to use with --backend."
    assert failure(PluginError, site, "gpu") == reason
    assert select_backend(site.boot(), "fast").chosen.id == "fast"


def test_a_probe_that_cannot_be_imported_is_fatal(site: Any) -> None:
    probed(site, "gpu", "import no_such_driver\n", "priority=9")
    file = site.directory / "modelhost_gpu" / "impl.py"
    assert failure(PluginError, site).splitlines()[0] == (
        "modelhost-gpu 1.0, backend 'gpu' is broken: modelhost_gpu.impl:probe cannot be imported: it needs the module "
        f"'no_such_driver', which is not installed ({file}:1). Remove it with: pip uninstall modelhost-gpu"
    )


@pytest.mark.parametrize("answer", ["True", "''", "0"])
def test_a_probe_that_answers_something_else_is_fatal(site: Any, answer: str) -> None:
    probed(site, "gpu", f"def probe(): return {answer}\n")
    assert f"its probe modelhost_gpu.impl:probe returned {eval(answer)!r}, expected None or a sentence" in failure(
        PluginError, site
    )


def test_the_device_excludes_a_probe_that_would_raise(site: Any) -> None:
    probed(site, "gpu", RAISES, 'priority=9, devices=("cuda",)')
    assert select_backend(site.boot(), device="cpu").chosen.id == "reference"


def test_a_named_backend_that_cannot_run_is_fatal(site: Any) -> None:
    probed(site, "gpu", CANNOT, 'devices=("cuda",)')
    assert failure(UnsupportedError, site, "gpu") == (
        "backend 'gpu' (modelhost-gpu 1.0) was asked for and cannot be used: no such hardware\n"
        "  rejected     reference (modelhost 0.1.0): backend 'gpu' was asked for"
    )
    assert failure(UnsupportedError, site, "gpu", device="cpu").startswith(
        "backend 'gpu' (modelhost-gpu 1.0) was asked for and cannot be used: runs on cuda, not on 'cpu'"
    )


def test_a_named_backend_that_is_not_installed(site: Any) -> None:
    assert failure(PluginError, site, "cuda").splitlines()[:2] == [
        "no installed plugin provides backend 'cuda'.",
        "It is provided by modelhost-cuda. Install it with: pip install modelhost-cuda",
    ]
    assert failure(PluginError, site, "toch") == (
        "no installed plugin provides backend 'toch'.\n"
        "Closest known: torch (pip install modelhost-torch), cpu (pip install modelhost-cpu), "
        "cuda (pip install modelhost-cuda)"
    )


def test_a_broken_backend_plugin_is_not_passed_over(site: Any) -> None:
    file = site.plugin("cuda", "1 / 0\n")
    site.backend("fast")
    error = (
        f"modelhost-cuda 1.0 (entry point 'cuda') is broken: ZeroDivisionError: division by zero ({file}:4). "
        "Remove it with: pip uninstall modelhost-cuda"
    )
    assert failure(PluginError, site) == (
        f"{error}\n"
        "To go on without it, name the backend to use with --backend.\n"
        f"  broken       cuda (modelhost-cuda 1.0): {error}"
    )
    assert select_backend(site.boot(), device="cpu").chosen.id == "fast"
    assert select_backend(site.boot(), "fast").chosen.id == "fast"


def test_a_disabled_backend_plugin_is_listed(site: Any) -> None:
    site.backend("cuda")
    selection = select_backend(site.boot(disable=("cuda",)))
    assert selection.chosen.id == "reference"
    assert (
        "  disabled     cuda (modelhost-cuda 1.0): modelhost-cuda 1.0 is disabled: 'cuda' is in plugins.disable"
        in selection.explain()
    )


def test_a_duplicate_is_fatal_when_it_would_be_tried(site: Any) -> None:
    site.backend("one", "priority=5")
    site.plugin("two", "@hookimpl\ndef modelhost_backends():\n    yield Backend('one', target='m:A', priority=5)\n")
    assert failure(PluginError, site).startswith("backend 'one' is declared by modelhost-one 1.0 (")
    site.backend("best", "priority=9")
    assert select_backend(site.boot()).chosen.id == "best"


def test_a_duplicate_is_fatal_whichever_copy_would_be_tried(site: Any) -> None:
    site.backend("one", 'priority=1, devices=("cuda",)')
    site.plugin("two", "@hookimpl\ndef modelhost_backends():\n    yield Backend('one', target='m:A', priority=5)\n")
    site.backend("good", "priority=3")
    assert failure(PluginError, site).startswith("backend 'one' is declared by modelhost-one 1.0 (")


def test_a_replacement_is_one_candidate(site: Any) -> None:
    site.backend("one", "priority=5")
    site.backend("faster", 'priority=5, replaces="modelhost-one:one"')
    selection = select_backend(site.boot(replace=("modelhost-one:one",)))
    assert [(line.id, line.verdict) for line in selection.candidates] == [("faster", "chosen"), ("reference", "lower")]


def test_a_fallback_names_the_broken_plugins_that_may_have_a_better_one(site: Any) -> None:
    site.plugin("acme", "1 / 0\n")
    warning = select_backend(site.boot()).warning
    assert warning is not None
    assert "These plugins cannot be used and may have one: modelhost-acme; see modelhost plugins." in warning
