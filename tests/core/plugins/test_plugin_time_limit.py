"""A plugin whose declaring module never comes back."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from modelhost.plugins.time_limit import TimeLimitExceeded, run_limited

SLEEPS = "import time\nfor _ in range(500):\n    time.sleep(0.02)\n"
SPINS = "while True:\n    pass\n"
HOOK_HANGS = (
    "import time\n@hookimpl\ndef modelhost_backends():\n"
    "    for _ in range(500):\n        time.sleep(0.02)\n    return []\n"
)


@pytest.mark.parametrize(("body", "lines"), [(SLEEPS, (5, 6)), (SPINS, (4, 5)), (HOOK_HANGS, (7, 8))])
def test_it_is_given_up_and_harms_nobody(site: Any, body: str, lines: tuple[int, int]) -> None:
    file = site.plugin("bad", body)
    site.backend("good")
    started = time.perf_counter()
    registry = site.boot(timeout=0.2)
    assert time.perf_counter() - started < 5
    bad = next(plugin for plugin in registry.plugins if plugin.entry_point == "bad")
    assert (bad.state, bad.timed_out, bad.ids) == ("broken", True, {})
    expected = [
        "modelhost-bad 1.0 (entry point 'bad') is broken: its declaring module 'modelhost_bad.plugin' takes longer "
        f"than 0.2 s ({file}:{line}). Remove it with: pip uninstall modelhost-bad"
        for line in lines
    ]
    assert bad.error in expected
    assert set(registry.of("backend")) == {"good", "reference"}


def test_the_code_is_told_to_stop() -> None:
    seen = threading.Event()

    def endless() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            seen.set()

    with pytest.raises(TimeLimitExceeded) as raised:
        run_limited(endless, 0.05)
    assert "endless" in {frame.f_code.co_name for frame, _ in raised.value.frames}
    assert seen.wait(5)


def test_what_it_returns_and_raises_comes_through() -> None:
    assert run_limited(lambda: 3, 5) == 3
    with pytest.raises(KeyboardInterrupt):
        run_limited(interrupted, 5)


def interrupted() -> None:
    raise KeyboardInterrupt
