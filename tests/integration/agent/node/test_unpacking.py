"""Unpacking of code trees by a process that runs as the job's user and has limits.

No archive can harm the agent or reach files that the user may not reach.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agent.conftest import ADA, agent_of_root
from tests.integration.agent.memory import peak_bytes
from tests.integration.agent.node.test_code_trees import Entry, file, pack, send, special
from tests.support.agent import AgentProcess

from warpdeck_agent.code.tar_stream import MAX_HEADER_BYTES, MAX_MEMBERS
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
MIB = 1 << 20
BLOCK = tarfile.BLOCKSIZE


@pytest.fixture
def agent(short_tmp: Path) -> Iterator[AgentProcess]:
    with agent_of_root(short_tmp) as agent_process:
        yield agent_process


def header(name: str, kind: bytes, size: int = 0) -> bytes:
    """Return the tar header of a member, without any check of its fields."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(*parts: bytes) -> bytes:
    """Return the given bytes as an archive."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as stream:
        for part in (*parts, bytes(2 * BLOCK)):
            stream.write(part)
    return buffer.getvalue()


def launch(
    agent: AgentProcess, job: int, data: bytes, script: str = "true", *, workspace: str = "", **tree: Any
) -> None:
    """Launch a job of ada with this tree.

    The job gets its own workspace unless `workspace` names one. `tree` holds further fields of TreeRef.
    """
    restarts = tree.pop("restarts", 0)
    digest = hashlib.sha256(data).hexdigest()
    given = {"root": "/nowhere", **tree}
    agent.launch(
        job,
        script,
        user="ada",
        uid=ADA,
        restarts=restarts,
        workspace=workspace or f"w{job}",
        tree=wire.TreeRef(tree="t" * 40, sha256=digest, size_bytes=len(data), **given),
        cwd_visible="links" in tree,
    )
    if not (agent.folder / "trees" / f"{digest}.tar.gz").exists():
        send(agent, data, digest, stream=job + 100)


def refused(agent: AgentProcess, job: int, data: bytes) -> str:
    """Return the reason why a job with this tree does not start."""
    launch(agent, job, data)
    return agent.link.expect(wire.LaunchFailed, lambda message: message.job_id == job).message


def work(agent: AgentProcess, job: int) -> Path:
    """Return the job's checkout folder."""
    return agent.folder / "work" / f"w{job}"


def test_no_archive_uses_much_memory_of_the_agent(agent: AgentProcess) -> None:
    assert agent.run(1, "true", user="ada", uid=ADA).exit_code == 0
    before = peak_bytes(agent)
    zeros = bytes(256 * MIB)
    for job, kind in ((2, tarfile.XHDTYPE), (3, tarfile.XGLTYPE), (4, tarfile.GNUTYPE_LONGNAME)):
        message = refused(agent, job, packed(header("long", kind, len(zeros)), zeros))
        assert message.endswith(f"it has a header with {len(zeros)} bytes; the limit is {MAX_HEADER_BYTES}")
    many = packed(header("g", tarfile.XGLTYPE) * (MAX_MEMBERS + 1))
    assert f"more than {MAX_MEMBERS} members" in refused(agent, 5, many)
    assert "larger than 4 GiB" in refused(agent, 6, packed(header("big", tarfile.REGTYPE, 5 << 30)))
    sparse = header("sparse", tarfile.GNUTYPE_SPARSE)
    assert "an entry that is not a file, folder or link: sparse" in refused(agent, 7, packed(sparse))
    assert peak_bytes(agent) - before < 16 * MIB


def test_a_damaged_header_is_refused(agent: AgentProcess) -> None:
    assert "damaged header" in refused(agent, 1, packed(b"x" * BLOCK))
    for job, length in enumerate((b"99", b"0", b"-5", b"x", b"9" * 22), start=2):
        records = (length + b" path=x\n").ljust(BLOCK, b"\0")
        data = packed(header("p", tarfile.XHDTYPE, BLOCK), records, header("f", tarfile.REGTYPE))
        assert "damaged header" in refused(agent, job, data)


def test_unpacked_files_belong_to_the_user_without_special_rights(agent: AgentProcess) -> None:
    long = "/".join(["d" * 90, "e" * 200])
    folders = [special("d" * 90, tarfile.DIRTYPE), special("shut", tarfile.DIRTYPE)]
    folders[1][2]["mode"] = 0
    entries: list[Entry] = [*folders, ("twice", b"first", {}), ("twice", b"second", {"mode": 0o6755})]
    data = pack(*entries, file("shut/inside"), file(long), special("out", tarfile.SYMTYPE, "/etc/shadow"))
    launch(agent, 1, data, script=f"cat twice shut/inside {long}; [ -L out ] && ! cat out")
    assert agent.link.report(1, "exited").exit_code == 0
    assert agent.text(1).startswith("secondxx")
    found = [path.lstat() for path in work(agent, 1).rglob("*")]
    assert len(found) == 6 and {(each.st_uid, each.st_gid) for each in found} == {(ADA, ADA)}
    assert stat.S_IMODE((work(agent, 1) / "twice").lstat().st_mode) == 0o755


def test_manipulated_work_folders_cannot_redirect_the_agent(agent: AgentProcess, short_tmp: Path) -> None:
    outside = short_tmp / "outside"
    outside.mkdir()
    data = pack(file("code"), special("sub", tarfile.DIRTYPE), file("sub/more"))
    launch(agent, 1, data, script="chmod 0 sub")
    assert agent.link.report(1, "exited").exit_code == 0
    launch(agent, 1, data, script=f"rm -r sub; ln -s {outside} sub", restarts=1)
    assert agent.link.report(1, "exited", restarts=1).exit_code == 0
    launch(agent, 1, data, restarts=2)
    assert "Not a directory" in agent.link.expect(wire.LaunchFailed).message
    assert list(outside.iterdir()) == []


def test_ignored_entries_are_linked_as_the_user(agent: AgentProcess, short_tmp: Path) -> None:
    root, hidden = short_tmp / "root", short_tmp / "hidden"
    for folder in (root, hidden):
        (folder / "data").mkdir(parents=True)
    hidden.chmod(0o700)
    data = pack(file("code"))
    for job, folder in ((1, root), (2, hidden)):
        names = ["data", "..", "gone", "a/b"]
        launch(agent, job, data, root=str(folder), links=names)
        assert agent.link.report(job, "exited").exit_code == 0
    assert sorted(os.listdir(work(agent, 1))) == ["code", "data"]
    assert (work(agent, 1) / "data").lstat().st_uid == ADA
    assert os.listdir(work(agent, 2)) == ["code"], "ada may not read the folder and gets no details"


def test_the_next_task_reuses_the_unpacked_tree_and_its_submit_folder(
    agent: AgentProcess,
) -> None:
    data = pack(file("code"), special("sub", tarfile.DIRTYPE))
    launch(agent, 1, data, script="touch made")
    assert agent.link.report(1, "exited").exit_code == 0
    launch(agent, 2, data, script="ls", workspace="w1")
    assert agent.link.report(2, "exited").exit_code == 0
    assert agent.text(2).split() == ["code", "made", "sub"]
    for job, subdir in ((3, "sub"), (4, "none")):
        for task in (job, 10 * job):
            launch(agent, task, data, script="pwd", workspace=f"w{job}", subdir=subdir)
            assert agent.link.report(task, "exited").exit_code == 0
            folder = work(agent, job) / subdir if subdir == "sub" else work(agent, job)
            assert agent.text(task) == str(folder)
