"""The PATH in a login shell of a job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from warpdeck_agent.users.login_path import PROFILE, install, variables

SITE = "PATH=/usr/bin:/bin\n"
"""The assignment in Debian's /etc/profile."""


def path_after(profile: Path, **environ: str) -> str:
    return subprocess.run(
        ["/bin/sh", "-c", f'{SITE}. "$0"; echo "$PATH"', profile],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_only_shells_of_jobs_find_the_job_programs(tmp_path: Path) -> None:
    (tmp_path / "etc/profile.d").mkdir(parents=True)
    install("/nowhere", uid=0, root=str(tmp_path))
    profile = tmp_path / PROFILE
    assert path_after(profile, WARPDECK_ACCESS="/a b/access.sock") == "/a b/bin:/usr/bin:/bin"
    assert path_after(profile) == "/usr/bin:/bin"
    twice = subprocess.run(
        ["/bin/sh", "-euc", '. "$0"; . "$0"; echo "$PATH"', profile],
        env={"PATH": "/usr/bin", "WARPDECK_ACCESS": "/a/access.sock"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert twice.stdout == "/a/bin:/usr/bin\n"


def test_a_system_without_a_profile_folder_is_not_changed(tmp_path: Path) -> None:
    install("/nowhere", uid=0, root=str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_an_agent_of_a_user_sets_bash_env_unless_it_is_set(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    install(str(folder), uid=1000)
    script = tmp_path / "job"
    script.write_text("#!/bin/bash -l\ncommand -v srun\n")
    script.chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin/srun").write_text("")
    (folder / "bin/srun").chmod(0o755)
    environ = {"WARPDECK_ACCESS": f"{folder}/access.sock", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environ |= variables(environ, str(folder), uid=1000)
    found = subprocess.run([str(script)], env=environ, capture_output=True, text=True, check=True)
    assert found.stdout == f"{folder}/bin/srun\n"
    assert variables({"BASH_ENV": "mine"}, str(folder), uid=1000) == {}
    assert variables({}, str(folder), uid=0) == {}
