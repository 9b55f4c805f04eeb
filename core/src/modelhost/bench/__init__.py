"""Measures a loaded model through the engine, as a user gets it."""

from __future__ import annotations

from modelhost.api.system import peak_memory

from .load import LoadTime, load_model
from .measure import decode_seconds, first_token_seconds, generating
from .profile import Profile, profile_model, profiled_executable
from .results import DecodeTimes, Measurements, PrefillTimes, percentile
from .suite import measure_model, measure_once
from .workload import Workload

__all__ = [
    "DecodeTimes",
    "LoadTime",
    "Measurements",
    "PrefillTimes",
    "Profile",
    "Workload",
    "decode_seconds",
    "first_token_seconds",
    "generating",
    "load_model",
    "measure_model",
    "measure_once",
    "peak_memory",
    "percentile",
    "profile_model",
    "profiled_executable",
]
