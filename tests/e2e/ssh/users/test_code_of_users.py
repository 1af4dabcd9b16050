"""Snapshots of users' code on a shared site: git runs as the owner of the code, and no other user can read
it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.ssh.users.test_users import ALICE, User, accounts, alice, bob, folder, site
from tests.support.home import Home

pytestmark = pytest.mark.lab
__all__ = ["accounts", "alice", "bob", "folder", "site"]


def as_alice(alice: User, *argv: str, at: Path) -> str:
    env = {**alice.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        alice.argv(*argv), cwd=at, env=env, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def submit_with_code(alice: User, code: Path, text: str) -> tuple[int, dict[str, Any]]:
    """Submit a job with the code of this folder, and return its id and snapshot."""
    (code / "run.py").write_text(text)
    os.chown(code / "run.py", ALICE, ALICE)
    output = alice.ok("submit", "--json", "--require-snapshot", "--chdir", str(code), "--wrap", "true")
    job = int(json.loads(output)["job_id"])
    return job, json.loads(alice.ok("show", str(job), "--json"))["snapshot"]


def test_programs_configured_in_a_users_store_never_run_as_root(site: Home, alice: User, bob: User) -> None:
    code = alice.folder / "code"
    code.mkdir()
    os.chown(code, ALICE, ALICE)
    as_alice(alice, "git", "init", "-q", at=code)
    first, snapshot = submit_with_code(alice, code, "one\n")
    second, _ = submit_with_code(alice, code, "two\n")
    store, marker = Path(snapshot["store"]), alice.folder / "ran-as"
    trap = alice.folder / "trap"
    trap.write_text(f"#!/bin/sh\nid -u >> {marker}\n")
    trap.chmod(0o755)
    for key, value in {
        "core.fsmonitor": str(trap),
        "core.pager": str(trap),
        "diff.external": str(trap),
        "core.hooksPath": str(alice.folder),
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "blob:none",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }.items():
        as_alice(alice, "git", "config", "--file", str(store / "config"), key, value, at=code)
    snapshot_detail = json.loads(site.ok("snapshot", "show", str(first), "--json"))
    assert snapshot_detail["paths"] == ["run.py"]
    assert "-one\n+two\n" in site.ok("snapshot", "diff", str(first), str(second))
    for argv in (
        ("snapshot", "diff", str(first)),
        ("rerun", str(first)),
        ("submit", "--code-of", str(first), "--chdir", str(code), "--wrap", "true"),
    ):
        assert site.run(*argv).returncode == 1, argv
        assert bob.run(*argv).returncode == 1, argv
    assert bob.run("snapshot", "show", str(first)).returncode == 1

    blob = as_alice(alice, "git", "--git-dir", str(store), "rev-parse", f"{snapshot['tree']}:run.py", at=code)
    (store / "objects" / blob[:2] / blob[2:]).unlink()
    assert site.run("snapshot", "diff", str(first), str(second)).returncode == 1
    assert set(marker.read_text().split()) == {str(ALICE)}, "the trap runs, and only as alice"

    store.rename(alice.folder / "kept.git")
    (alice.folder / "roots.git").mkdir()
    store.symlink_to(alice.folder / "roots.git")  # A store of root in the place of alice's store.
    assert site.run("snapshot", "show", str(first)).returncode == 1
    assert set(marker.read_text().split()) == {str(ALICE)}
