"""Whoever names a folder has nothing made in it that they could not make there themselves, though root looks for them."""

from __future__ import annotations

import asyncio
import os
import pwd
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import comes

from warpdeck.fleet.probefile import ProbeFile, there_for_a_moment

NOBODY = pwd.getpwnam("nobody")


@pytest.mark.root
@pytest.mark.parametrize(
    ("owner", "mode", "maker"),
    [(NOBODY.pw_uid, 0o700, 0), (0, 0o777, NOBODY.pw_uid)],
    ids=["their own", "one that they may write"],
)
def test_a_file_is_there_for_a_moment(short_tmp: Path, owner: int, mode: int, maker: int) -> None:
    short_tmp.chmod(0o711)
    folder = short_tmp / "work"
    folder.mkdir()
    os.chown(folder, owner, -1)
    folder.chmod(mode)
    made = ProbeFile(str(folder), uid=NOBODY.pw_uid)
    assert (folder / made.name).stat().st_uid == maker
    made.remove()
    assert not list(folder.iterdir())


@pytest.mark.root
@pytest.mark.parametrize(("owner", "mode"), [(0, 0o755), (NOBODY.pw_uid, 0o500)])
def test_nothing_is_made_where_its_user_may_not(short_tmp: Path, owner: int, mode: int) -> None:
    short_tmp.chmod(0o711)
    folder = short_tmp / "etc"
    folder.mkdir()
    os.chown(folder, owner, -1)
    folder.chmod(mode)
    with pytest.raises(PermissionError):
        ProbeFile(str(folder), uid=NOBODY.pw_uid)
    assert not list(folder.iterdir())


@pytest.mark.root
def test_it_goes_from_where_it_was_made_though_the_path_leads_elsewhere_by_then(short_tmp: Path) -> None:
    folder, other = short_tmp / "work", short_tmp / "other"
    for each in (folder, other):
        each.mkdir()
        os.chown(each, NOBODY.pw_uid, -1)
    made = ProbeFile(str(folder), uid=NOBODY.pw_uid)
    (other / made.name).touch()
    folder.rename(short_tmp / "moved")
    folder.symlink_to(other)
    made.remove()
    assert [each.name for each in other.iterdir()] == [made.name]
    assert not list((short_tmp / "moved").iterdir())


class Gated(ThreadPoolExecutor):
    """What is to be done begins when the gate is open: a file system that does not answer before."""

    def __init__(self) -> None:
        super().__init__(1)
        self.begun, self.gate = threading.Event(), threading.Event()

    def submit(self, work: Any, /, *words: Any, **named: Any) -> Future[Any]:
        def behind_the_gate() -> Any:
            self.begun.set()
            assert self.gate.wait(60)
            return work(*words, **named)

        return super().submit(behind_the_gate)


async def whoever_asks(pool: Executor, folder: Path, *, answer_s: float = 60.0) -> None:
    async with there_for_a_moment(pool, str(folder), uid=os.getuid(), answer_s=answer_s):
        await asyncio.Event().wait()


@pytest.mark.parametrize("way", ["cancelled", "told of a hang", "cancelled at its end"])
async def test_nothing_is_left_by_who_goes_while_it_is_only_being_made(short_tmp: Path, way: str) -> None:
    folder = short_tmp / "work"
    folder.mkdir()
    with Gated() as pool:
        answer_s = 0.01 if way == "told of a hang" else 60.0
        asking = asyncio.create_task(whoever_asks(pool, folder, answer_s=answer_s))
        await asyncio.to_thread(pool.begun.wait, 60)
        if way == "cancelled at its end":
            pool.gate.set()
            await comes(lambda: any(folder.iterdir()), what="it is there")
        if way != "told of a hang":
            asking.cancel()
        with pytest.raises((asyncio.CancelledError, TimeoutError)):
            await asking
        written = folder.stat().st_mtime_ns
        pool.gate.set()
        pool.submit(lambda: None).result(60)
        await asyncio.to_thread(pool.shutdown)
    assert not list(folder.iterdir())
    assert way == "cancelled at its end" or folder.stat().st_mtime_ns > written, "it was made and removed"


async def test_what_was_only_queued_is_not_made_at_all(short_tmp: Path) -> None:
    folder = short_tmp / "work"
    folder.mkdir()
    with Gated() as pool:
        pool.submit(lambda: None)
        await asyncio.to_thread(pool.begun.wait, 60)
        asking = asyncio.create_task(whoever_asks(pool, folder))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        written = folder.stat().st_mtime_ns
        pool.gate.set()
    assert folder.stat().st_mtime_ns == written and not list(folder.iterdir())
