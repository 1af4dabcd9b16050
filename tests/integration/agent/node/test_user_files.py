"""Output files named by users: a child process with the user's rights reads them and delays no other user."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, MakeAgent
from tests.lab.hangs import hanging_mount
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck_agent.linux.file_reading import READ_BYTES, FilePiece, LogError
from warpdeck_agent.users.user_files import UserFileReader
from warpdeck_agent.wire import messages as wire


@pytest.mark.lab
def test_a_log_on_a_hanging_mount_delays_no_job_and_is_reported(
    make_agent: MakeAgent, short_tmp: Path
) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        (short_tmp / "links").symlink_to("hangs/below")
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        paths = [f"{mount.path}/out", f"{short_tmp}/links/../out"]
        for stream, path in enumerate(paths, 1):
            agent.link.send(wire.OpenLog(stream=stream, job_id=99, restarts=0, path=path, uid=0, follow=True))
        assert agent.run(1, "echo well").exit_code == 0
        for stream, path in enumerate(paths, 1):
            ended = agent.link.expect(wire.StreamEnd, lambda message, of=stream: message.stream == of)
            assert f"cannot read {path} on this node: its file server does not answer" in ended.error
        agent.link.send(wire.OpenLog(stream=3, job_id=99, restarts=0, path=paths[0], uid=0))
        assert "does not answer" in agent.link.expect(wire.StreamEnd).error, "the server is not asked again"
        agent.kill()
        agent.start()  # the agent's lock was released


async def test_a_child_process_reads_the_same_data_as_the_agent(short_tmp: Path) -> None:
    path = short_tmp / "out"
    file = UserFileReader(str(path), os.getuid())
    assert await file.read_at(None) is None
    path.write_bytes(b"x" * READ_BYTES + b"rest")
    assert await file.read_at(None) == FilePiece(READ_BYTES + 4, b"")
    assert await file.read_at(0) == FilePiece(READ_BYTES + 4, b"x" * READ_BYTES)
    assert await file.read_at(READ_BYTES) == FilePiece(READ_BYTES + 4, b"rest")
    os.truncate(path, 0)
    path.write_bytes(b"new")
    assert await file.read_at(READ_BYTES + 4) == FilePiece(3, b"new")
    file.close()
    await eventually_async(lambda: file.is_over, what="the child has ended")


async def test_a_child_process_reads_no_more_data_than_the_agent(short_tmp: Path) -> None:
    file = UserFileReader(str(short_tmp), os.getuid())
    with pytest.raises(LogError, match="is not a regular file"):
        await asyncio.wait_for(file.read_at(0), WAIT_S)
    file.close()
    await eventually_async(lambda: file.is_over, what="the child has ended")


async def test_endless_reads_of_a_user_are_limited_in_number(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpdeck_agent.users.user_files.MOST_OF_USER", 2)
    files = [UserFileReader(str(short_tmp / str(each)), os.getuid()) for each in range(3)]
    for file in files[:2]:
        assert await file.read_at(None) is None
    with pytest.raises(LogError, match="2 output files of this user are being read"):
        await files[2].read_at(None)
    files[0].close()
    await eventually_async(lambda: files[0].is_over, what="the first child has ended")
    assert await files[2].read_at(None) is None
    for file in files[1:]:
        file.close()
    await eventually_async(lambda: all(file.is_over for file in files), what="all children have ended")


@pytest.mark.root
async def test_files_are_read_with_the_rights_of_the_user(short_tmp: Path) -> None:
    secret, own = short_tmp / "secret", short_tmp / "own"
    short_tmp.chmod(0o711)
    for path in (secret, own):
        path.write_text(path.name)
        path.chmod(0o600)
    os.chown(own, ADA, ADA)
    (short_tmp / "link").symlink_to(secret)
    os.mkfifo(short_tmp / "pipe", 0o666)
    os.chown(short_tmp / "pipe", ADA, ADA)
    for name, message in (
        ("secret", "Permission denied"),
        ("link", "Permission denied"),
        ("pipe", "not a regular file"),
    ):
        file = UserFileReader(str(short_tmp / name), ADA)
        with pytest.raises(LogError, match=message):
            await file.read_at(0)
        file.close()
    file = UserFileReader(str(own), ADA)
    assert await file.read_at(0) == FilePiece(3, b"own")
    file.close()
    nobodys = UserFileReader(str(own), -1)
    with pytest.raises(LogError, match="was not given"):
        await nobodys.read_at(0)
