"""Another user's snapshot store: root reads it as that user, no other user reads it, and none of its programs
runs as us.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpdeck.base.errors import UserError
from warpdeck.client import code
from warpdeck.client.submission import _packed
from warpdeck.snapshots import SnapshotStore, capture, capture_folder, git

pytestmark = pytest.mark.root

OTHER = pwd.getpwnam("nobody").pw_uid
SECRET = b"print('of nobody')\n"


class Stranger:
    """A store of another user with two snapshots. Each program that it makes git run writes its uid to a
    file.
    """

    def __init__(self, folder: Path) -> None:
        self.ran = folder / "ran"
        self.ran.touch()
        self.ran.chmod(0o666)
        self.trap = folder / "trap"
        self.trap.write_text(f"#!/bin/sh\nid -u >> {self.ran}\nexit 1\n")
        self.trap.chmod(0o755)
        self.code = folder / "code"
        self.code.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.code)], check=True, capture_output=True)
        store = folder / "snapshots.git"
        self.snapshots = []
        for text in (b"old\n", SECRET):
            (self.code / "train.py").write_bytes(text)
            taken = capture_folder(str(self.code), str(store)).snapshot
            assert taken is not None
            self.snapshots.append({**taken, "uid": OTHER})
        self.store = store

    def give_away(self) -> None:
        for path in (self.store, self.store.resolve(), self.code):
            for where, folders, files in os.walk(path):
                for name in (where, *(os.path.join(where, each) for each in (*folders, *files))):
                    os.lchown(name, OTHER, OTHER)

    def config(self, *values: str) -> None:
        for value in values:
            name, _, text = value.partition("=")
            argv = ["git", "--git-dir", str(self.store), "config", name, text]
            subprocess.run(argv, check=True, capture_output=True)

    def uids(self) -> set[int]:
        return {int(line) for line in self.ran.read_text().split()}


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """A store in a folder that all users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o755)
    yield Stranger(folder)
    shutil.rmtree(folder)


def fsmonitor(stranger: Stranger) -> None:
    stranger.config(f"core.fsmonitor={stranger.trap}")


def promisor(stranger: Stranger) -> None:
    """Make it a partial clone: git requests missing objects from the remote."""
    stranger.config(
        "core.repositoryformatversion=1",
        "extensions.partialClone=origin",
        f"remote.origin.url=ext::{stranger.trap}",
        "remote.origin.promisor=true",
        "protocol.ext.allow=always",
    )
    for path in (stranger.store / "objects").glob("??/*"):
        path.unlink()


def drivers(stranger: Stranger) -> None:
    stranger.config(
        f"diff.external={stranger.trap}",
        f"diff.py.textconv={stranger.trap}",
        f"filter.py.smudge={stranger.trap}",
        f"filter.py.clean={stranger.trap}",
        f"core.pager={stranger.trap}",
        "pager.show=true",
        f"core.hooksPath={stranger.trap.parent}",
        f"alias.show=!{stranger.trap}",
        f"core.sshCommand={stranger.trap}",
        f"tar.tar.command={stranger.trap}",
    )
    (stranger.store / "info" / "attributes").write_text("* diff=py filter=py\n")


def alternates(stranger: Stranger) -> None:
    (stranger.store / "objects" / "info" / "alternates").write_text("/root\n")


def replaced_by_a_link(stranger: Stranger) -> None:
    real = stranger.store.with_name("real.git")
    stranger.store.rename(real)
    stranger.store.symlink_to(real)
    stranger.config(f"core.fsmonitor={stranger.trap}")


TRAPS = [fsmonitor, promisor, drivers, alternates, replaced_by_a_link]
Reads = Callable[[dict[str, Any], dict[str, Any]], Any]
READS: dict[str, Reads] = {
    "files": lambda old, new: code.files(new),
    "read": lambda old, new: code.read(new, "train.py"),
    "diff": lambda old, new: code.diff(old, new),
    "meta": lambda old, new: code.store_of(new).meta(new["tree"]),
}
WRITES: dict[str, Reads] = {
    "diff with now": lambda old, new: code.diff_with_now(new),
    "rerun": lambda old, new: _packed(new, "12"),
    "pack": lambda old, new: code.store_of(new).pack(new["tree"]),
    "pack as our own": lambda old, new: SnapshotStore(new["store"]).pack(new["tree"]),
    "restore": lambda old, new: code.store_of(new).restore(new["tree"], "/tmp/never-restored"),
    "read as our own": lambda old, new: SnapshotStore(new["store"]).files(new["tree"]),
    "capture into it": lambda old, new: capture_folder(os.path.dirname(__file__), new["store"]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("trap", TRAPS)
def test_no_program_of_a_store_runs_as_root(
    stranger: Stranger, trap: Callable[[Stranger], None], read: Reads
) -> None:
    trap(stranger)
    stranger.give_away()
    with contextlib.suppress(UserError):
        read(*stranger.snapshots)
    assert stranger.uids() <= {OTHER}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("trap", TRAPS)
def test_root_submits_and_writes_nothing_from_another_users_store(
    stranger: Stranger, trap: Callable[[Stranger], None], write: Reads
) -> None:
    trap(stranger)
    stranger.give_away()
    with pytest.raises(UserError):
        write(*stranger.snapshots)
    assert stranger.uids() == set()


def test_root_can_read_the_code_of_another_user(stranger: Stranger) -> None:
    stranger.give_away()
    old, new = stranger.snapshots
    assert code.files(new) == ["train.py"]
    assert code.read(new, "train.py") == SECRET
    assert "-old" in code.diff(old, new) and "+print" in code.diff(old, new)


def test_a_user_cannot_read_the_store_of_another_user(stranger: Stranger) -> None:
    stranger.give_away()
    child = os.fork()
    if not child:
        os.setresuid(OTHER - 1, OTHER - 1, OTHER - 1)
        try:
            code.files(stranger.snapshots[1])
        except UserError as error:
            os._exit(7 if "another user" in error.message else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("trap", ["sleep 1000", "exec yes"])
def test_a_hanging_store_is_given_up(stranger: Stranger, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    """Its git process ends, and so do git's children."""
    monkeypatch.setattr(git, "OTHERS_S", 1.0)
    stranger.trap.write_text(f"#!/bin/sh\nid -u >> {stranger.ran}\n{trap}\n")
    stranger.config(f"alias.hang=!{stranger.trap}")
    stranger.give_away()
    with pytest.raises(UserError, match="nobody"):
        git.run_git_as(OTHER, ["hang"], store=str(stranger.store))
    assert stranger.uids() == {OTHER}


def test_git_ignores_the_user_of_sudo(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git lets root use the repository of the user who called sudo, with that user's programs."""
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    (stranger.code / ".git" / "hooks").mkdir(exist_ok=True)
    subprocess.run(
        ["git", "-C", str(stranger.code), "config", "filter.py.clean", str(stranger.trap)], check=True
    )
    (stranger.code / ".gitattributes").write_text("* filter=py\n")
    stranger.give_away()
    with pytest.raises(UserError, match="safe"):
        git.run_git(["status"], cwd=str(stranger.code))
    assert stranger.uids() == set()


def test_a_process_that_leaves_the_session_delays_nothing(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the pipe of git's output open."""
    monkeypatch.setattr(git, "OTHERS_S", 1.0)
    stranger.trap.write_text(f"#!/bin/sh\nid -u >> {stranger.ran}\nsetsid sleep 20 &\n")
    stranger.config(f"alias.hang=!{stranger.trap}")
    stranger.give_away()
    with pytest.raises(UserError, match="took more than 1 s"):
        git.run_git_as(OTHER, ["hang"], store=str(stranger.store))
    assert stranger.uids() == {OTHER}


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_git_reads_no_settings_of_the_user_of_sudo(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    place = {"HOME": ".gitconfig", "XDG_CONFIG_HOME": "git/config"}[variable]
    home = stranger.code / "home"
    (home / place).parent.mkdir(parents=True)
    (home / place).write_text(f"[alias]\n\ttrap = !{stranger.trap}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(home))
    stranger.give_away()
    with pytest.raises(UserError, match="trap"):
        git.run_git(["trap"], cwd="/")
    assert stranger.uids() == set()


def test_the_settings_of_a_nested_repository_of_another_user_are_not_read(
    stranger: Stranger, tmp_path: Path
) -> None:
    """`git status` would do so, with the filters of that repository's settings, if the index has a commit
    there.
    """
    own = tmp_path / "own"
    nested = own / "nested"
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", "init", "--quiet", str(own)], check=True)
    shutil.copytree(stranger.code, nested)
    for argv in (["add", "train.py"], [*who, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(nested), *argv], check=True)
    subprocess.run(["git", "-C", str(own), "add", "nested"], check=True, capture_output=True)
    subprocess.run(["git", "-C", str(nested), "config", "filter.x.clean", str(stranger.trap)], check=True)
    (nested / ".gitattributes").write_text("* filter=x\n")
    os.utime(nested / "train.py", (1, 1))
    subprocess.run(["chown", "-R", str(OTHER), str(nested)], check=True)
    taken = capture_folder(str(own), str(tmp_path / "store")).snapshot
    assert taken is not None
    found = SnapshotStore(taken["store"]).files(taken["tree"])
    assert found == ["nested/.gitattributes", "nested/train.py"]
    capture._git_facts(str(own))  # as if .git appeared between listing the files and this call
    assert stranger.uids() == set()
