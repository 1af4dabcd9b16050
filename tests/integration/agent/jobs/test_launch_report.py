"""Output paths in a launch's report: a share without output reports none, so none is collected for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.storage.spool import Meta, Spool


@pytest.mark.parametrize(
    ("role", "stdout", "expected"),
    [("batch", "/home/ann/x.out", "/home/ann/x.out"), ("batch", "", "spool:"), ("hold", "", "")],
)
def test_only_existing_output_is_reported(tmp_path: Path, role: str, stdout: str, expected: str) -> None:
    meta = Meta(
        job_id=1,
        restarts=0,
        role=role,
        user="ann",
        uid=0,
        started_at=0.0,
        time_limit_s=None,
        grace_s=1.0,
        stdout=stdout,
        stderr="",
        work_dir="/",
        pty=False,
    )
    folder = Spool(str(tmp_path)).launch_folder(1, 0)
    path = LocalLaunch(folder, meta, agent="a").report().stdout_path
    assert path.startswith(expected) if expected else path == ""
