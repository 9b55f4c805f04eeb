"""What has to be done in a forked child."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def call_in_children(method: Callable[[], None]) -> None:
    """Call a bound method in every child that this process forks, as long as the method's object lives.

    A child has only the thread that forked it: a lock that another thread held must be replaced there, as nobody would
    release it.
    """
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)
