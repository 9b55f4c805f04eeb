"""Ctrl-C while an answer is generated."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from modelhost.cli.interrupt import Interrupt


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_first_is_noted_and_second_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.requested
        press()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is before


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            press()
            assert not interrupt.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone() -> None:
    def enter() -> bool:
        with Interrupt() as interrupt:
            return interrupt.requested

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(enter).result() is False
    assert signal.getsignal(signal.SIGINT) is before
