"""Packed code trees: they arrive whole or not at all, and are unpacked only inside their work folder."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess

from warpdeck_agent.code.trees import KEPT_S, TreeStore
from warpdeck_agent.wire import messages as wire

Entry = tuple[str, bytes, dict[str, object]]
"""A name, its content, and further fields of its tar header."""


def file(name: str, content: bytes = b"x") -> Entry:
    return name, content, {}


def special(name: str, kind: bytes, target: str = "") -> Entry:
    return name, b"", {"type": kind, "linkname": target}


def pack(*entries: Entry) -> bytes:
    """Return a tar.gz file with the given entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, fields in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def launch(
    agent: AgentProcess, packed: bytes, *, job_id: int = 1, sha256: str = "", workspace: str = "w1"
) -> str:
    """Launch a job that prints the file `code` of this tree; return the tree's digest."""
    digest = sha256 or hashlib.sha256(packed).hexdigest()
    tree = wire.TreeRef(tree="t" * 40, sha256=digest, size_bytes=len(packed), root="/nowhere")
    agent.launch(job_id, "cat code", tree=tree, workspace=workspace, cwd_visible=False)
    return digest


def send(agent: AgentProcess, packed: bytes, digest: str, *, stream: int = 9) -> None:
    """Upload the tree in small pieces."""
    agent.link.expect(wire.NeedTree)
    agent.link.send(wire.PutTree(tree="t" * 40, sha256=digest, size_bytes=len(packed), stream=stream))
    for start in range(0, len(packed), 1000):
        agent.link.send_data(stream, packed[start : start + 1000])
    agent.link.send(wire.StreamEnd(stream=stream))


def refused(agent: AgentProcess, packed: bytes) -> str:
    """Return the reason why a job with this tree does not start."""
    send(agent, packed, launch(agent, packed))
    return agent.link.expect(wire.LaunchFailed).message


def left(agent: AgentProcess) -> list[str]:
    """Return the content of the folder of trees."""
    return sorted(path.name for path in (agent.folder / "trees").iterdir())


def test_a_tree_is_requested_once_and_its_jobs_run_in_it(agent: AgentProcess) -> None:
    packed = pack(file("code", b"from the tree\n"), special("sub", tarfile.DIRTYPE), file("sub/more"))
    digest = launch(agent, packed)
    launch(agent, packed, job_id=2)
    send(agent, packed, digest)
    assert [agent.link.report(job, "exited").exit_code for job in (1, 2)] == [0, 0]
    assert (agent.text(1), agent.text(2)) == ("from the tree", "from the tree")
    launch(agent, packed, job_id=3, workspace="w2")
    assert agent.link.report(3, "exited").exit_code == 0
    assert not agent.link.has(wire.NeedTree)
    assert left(agent) == [digest + ".tar.gz"]


def test_a_damaged_tree_is_refused_and_deleted(agent: AgentProcess) -> None:
    packed = pack(file("code"))
    digest = launch(agent, packed, sha256="0" * 64)
    send(agent, packed, digest)
    assert "was damaged" in agent.link.expect(wire.LaunchFailed).message
    assert left(agent) == []


def test_a_tree_longer_than_announced_is_aborted(agent: AgentProcess) -> None:
    packed = pack(file("code", bytes(range(256)) * 64))
    digest = launch(agent, packed)
    agent.link.send(wire.PutTree(tree="t" * 40, sha256=digest, size_bytes=10, stream=9))
    agent.link.send_data(9, packed)
    assert "longer than announced" in agent.link.expect(wire.LaunchFailed).message
    assert left(agent) == []


def test_an_incomplete_upload_is_requested_again(agent: AgentProcess) -> None:
    packed = pack(file("code", b"whole\n"))
    digest = launch(agent, packed)
    agent.link.send(wire.PutTree(tree="t" * 40, sha256=digest, size_bytes=len(packed), stream=9))
    agent.link.send_data(9, packed[:20])
    agent.link.expect(wire.StreamAck)
    agent.connect()
    assert left(agent) == []
    send(agent, packed, launch(agent, packed))
    assert agent.link.report(1, "exited").exit_code == 0


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([file("../escaped")], "leads outside"),
        ([file("a/../../escaped")], "leads outside"),
        ([file("/tmp/escaped")], "leads outside"),
        ([special("out", tarfile.SYMTYPE, "../.."), file("out/escaped")], "leads through a link"),
        ([special("null", tarfile.CHRTYPE)], "not a file, folder or link"),
        ([special("disk", tarfile.BLKTYPE)], "not a file, folder or link"),
        ([special("pipe", tarfile.FIFOTYPE)], "not a file, folder or link"),
        ([special("hard", tarfile.LNKTYPE, "/etc/shadow")], "not a file, folder or link"),
    ],
)
def test_a_tree_that_would_leave_its_folder_is_refused(
    shared: AgentProcess, entries: list[Entry], text: str
) -> None:
    packed, job_id = pack(file("code"), *entries), shared.new_id()
    send(shared, packed, launch(shared, packed, job_id=job_id, workspace=f"w{job_id}"))
    assert text in shared.link.expect(wire.LaunchFailed).message
    assert not [path for path in shared.folder.parent.rglob("*") if path.name == "escaped"]
    assert not Path("/tmp/escaped").exists()
    assert shared.run(shared.new_id(), "true").exit_code == 0


def test_a_tree_that_is_no_archive_is_refused(agent: AgentProcess) -> None:
    assert "cannot unpack" in refused(agent, b"this is no archive")
    assert "cannot unpack" in refused_again(agent, pack(file("code", bytes(5000)))[:60])


def refused_again(agent: AgentProcess, packed: bytes) -> str:
    """Return the reason why a second job with this tree does not start."""
    send(agent, packed, launch(agent, packed, job_id=2, workspace="w2"), stream=10)
    return agent.link.expect(wire.LaunchFailed).message


def test_a_link_that_a_job_put_into_its_work_folder_is_not_followed(agent: AgentProcess) -> None:
    packed = pack(file("code"), special("sub", tarfile.DIRTYPE), file("sub/more", b"tree"))
    digest = launch(agent, packed)
    send(agent, packed, digest)
    agent.link.report(1, "exited")
    outside = agent.folder.parent / "outside"
    outside.mkdir()
    work = agent.folder / "work" / "w1"
    (work / "sub" / "more").unlink()
    (work / "sub").rmdir()
    (work / "sub").symlink_to(outside)
    tree = wire.TreeRef(tree="t" * 40, sha256=digest, size_bytes=len(packed), root="/nowhere")
    agent.launch(1, "cat code", restarts=1, tree=tree, workspace="w1", cwd_visible=False)
    assert agent.link.expect(wire.LaunchFailed).message
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("workspace", ["../w", "a/b", "."])
def test_a_workspace_has_a_plain_name(shared: AgentProcess, workspace: str) -> None:
    shared.launch(shared.new_id(), "true", workspace=workspace, cwd_visible=False)
    assert "invalid characters" in shared.link.expect(wire.LaunchFailed).message


def test_trees_that_no_launch_has_used_for_a_day_are_removed(tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    store = TreeStore(str(tmp_path))
    now = 10 * KEPT_S
    for name, age_s in (("old", 2), ("used", 2), ("waiting", 2), ("new", 0.5)):
        path = store.path(name)
        Path(path).write_bytes(b"")
        os.utime(path, (now - age_s * KEPT_S,) * 2)
    killed = tmp_path / "trees" / "tmpabc.part"  # The agent was killed during an upload.
    killed.write_bytes(b"")
    os.utime(killed, (now - 2 * KEPT_S,) * 2)
    assert store.has("used"), "a use makes it young"
    store.clean({"waiting"}, now_unix=now)
    assert {entry.name for entry in (tmp_path / "trees").iterdir()} == {
        "used.tar.gz",
        "waiting.tar.gz",
        "new.tar.gz",
    }
    assert not store.has("old")


def test_a_removed_tree_is_requested_again(agent: AgentProcess) -> None:
    packed = pack(file("code", b"first"))
    digest = launch(agent, packed)
    send(agent, packed, digest)
    assert agent.link.report(1, "exited").exit_code == 0
    (agent.folder / "trees" / f"{digest}.tar.gz").unlink()
    launch(agent, packed, job_id=2, workspace="w2")
    send(agent, packed, digest, stream=11)
    assert agent.link.report(2, "exited").exit_code == 0
    assert left(agent) == [digest + ".tar.gz"]
