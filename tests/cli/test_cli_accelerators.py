"""What ``modelhost doctor`` says of accelerators, without a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelhost.cli import host_facts


def test_device_files_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("card0", "card1", "other"):
        (tmp_path / name).touch()
    (tmp_path / "version").write_text("NVRM version: Kernel Module  570.86.15  Thu Jan 23\n")
    places = {
        "NVIDIA": (f"{tmp_path}/card[0-9]*", f"{tmp_path}/version"),
        "AMD": (f"{tmp_path}/other", f"{tmp_path}/absent"),
        "none": (f"{tmp_path}/nothing*", ""),
    }
    monkeypatch.setattr(host_facts, "_ACCELERATORS", places)
    monkeypatch.setattr(host_facts.platform, "system", lambda: "Linux")
    assert host_facts.accelerators() == "2 NVIDIA (driver 570.86.15), 1 AMD"
    monkeypatch.setattr(host_facts, "_ACCELERATORS", {})
    assert host_facts.accelerators() == "none seen"
