"""A gateway on another machine that shares the user's home folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck.base.controller_daemon import other_host, running_pid, take_lock
from warpdeck.base.engine_choice import claim_home
from warpdeck.base.paths import SLURM, default_paths
from warpdeck.cli.main import main


def test_a_gateway_on_another_machine_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPDECK_HOME", str(tmp_path))
    monkeypatch.setenv("WARPDECK_ENGINE", SLURM)
    home = default_paths()
    claim_home(home)
    descriptor = take_lock(home)
    try:
        assert (running_pid(home), other_host(home)) == (os.getpid(), "")
        Path(home.lock).write_text(f"{os.getpid()} login1\n")
        assert (running_pid(home), other_host(home)) == (os.getpid(), "login1")
        for verb in ("status", "up", "down", "queue"):
            assert main([verb]) == 1
            assert f"the gateway in {home.home} runs on login1\n" in capsys.readouterr().err
    finally:
        os.close(descriptor)
    assert (running_pid(home), other_host(home)) == (0, "")
