"""Output files on mounts whose server may hang: they are read by a child, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.lab.hangs import hanging_mount
from tests.waiting import WAIT_S, comes

from warpdeck_agent.farfiles import FarFile, leads_far
from warpdeck_agent.readfile import READ_BYTES, LogError, Look
from warpdeck_agent.wire import messages as wire

from .conftest import MakeAgent


@pytest.mark.lab
def test_a_log_behind_a_hanging_mount_holds_up_no_job_and_is_told(
    make_agent: MakeAgent, short_tmp: Path
) -> None:
    with hanging_mount(short_tmp / "hangs") as mount:
        (short_tmp / "links").symlink_to("hangs/below")
        agent = make_agent()
        agent.program = [*mount.inside, *agent.program]
        agent.start()
        paths = [f"{mount.path}/out", f"{short_tmp}/links/../out"]
        for stream, path in enumerate(paths, 1):
            agent.link.send(wire.OpenLog(stream=stream, job_id=99, restarts=0, path=path, follow=True))
        assert agent.run(1, "echo well").exit_code == 0
        for stream, path in enumerate(paths, 1):
            ended = agent.link.expect(wire.StreamEnd, lambda said, of=stream: said.stream == of)
            assert f"{path} does not answer on this node" in ended.error
        agent.link.send(wire.OpenLog(stream=3, job_id=99, restarts=0, path=paths[0]))
        assert "does not answer" in agent.link.expect(wire.StreamEnd).error, "it is not asked again"
        agent.kill()
        agent.start()  # the lock is free


async def test_a_child_reads_what_the_agent_would(short_tmp: Path) -> None:
    path = short_tmp / "out"
    file = FarFile(str(path), -1)
    assert await file.look(None) is None
    path.write_bytes(b"x" * READ_BYTES + b"rest")
    assert await file.look(None) == Look(READ_BYTES + 4, b"")
    assert await file.look(0) == Look(READ_BYTES + 4, b"x" * READ_BYTES)
    assert await file.look(READ_BYTES) == Look(READ_BYTES + 4, b"rest")
    os.truncate(path, 0)
    path.write_bytes(b"new")
    assert await file.look(READ_BYTES + 4) == Look(3, b"new")
    file.close()
    await comes(lambda: file.is_over, what="the child has ended")


async def test_a_child_reads_no_more_than_the_agent_would(short_tmp: Path) -> None:
    file = FarFile(str(short_tmp), -1)
    with pytest.raises(LogError, match="is not an output file of this job's user"):
        await asyncio.wait_for(file.look(0), WAIT_S)
    file.close()
    await comes(lambda: file.is_over, what="the child has ended")


@pytest.mark.lab
def test_where_a_path_leads_is_found_without_asking_a_mount(make_agent: MakeAgent, short_tmp: Path) -> None:
    (short_tmp / "loop").symlink_to("loop")
    (short_tmp / "near").symlink_to("/proc")
    for path in (
        "/",
        "/nowhere/at/all",
        f"{short_tmp}/loop/out",
        f"{short_tmp}/near/self",
        "/proc/../tmp//x",
    ):
        assert not leads_far(path), path
