"""The NumPy backend, for backends that begin as a subclass of it and replace kernels one by one."""

from __future__ import annotations

from modelhost.reference import ReferenceBackend

__all__ = ["ReferenceBackend"]
