"""Folder lookups by a root agent: they use the rights of the requesting user.

A user's hanging folder delays no other user.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA, BOB
from tests.lab.hangs import hanging_mount
from tests.support.waiting import WAIT_S

from warpdeck_agent.code.work_folders import MOST_WAITING, FolderChecks

ASKS = """
import asyncio, os, subprocess, sys
from warpdeck_agent.code.work_folders import FolderChecks
from warpdeck_agent.linux.refusals import LaunchError

async def hangs(folders, path, uid):
    try:
        await folders.is_there(path, uid=uid)
    except LaunchError as error:
        assert "does not answer" in str(error)
        return True

async def main(mount, folder, user, other, most):
    folders = FolderChecks(answer_s=3.0)
    hanging = [asyncio.create_task(hangs(folders, f"{mount}/{each}", user)) for each in range(most + 8)]
    await asyncio.sleep(0)
    assert await folders.is_there(folder, uid=other), "others are answered"
    assert not any(task.done() for task in hanging)
    children = subprocess.run(["pgrep", "-c", "-u", str(user), "-x", "sh"], capture_output=True, text=True).stdout
    assert int(children) <= most, "the others wait until one of these has come back"
    assert all(await asyncio.gather(*hanging))
    print("over", flush=True)
    os._exit(0)

asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
"""


async def test_many_lookups_at_once_are_all_answered(short_tmp: Path) -> None:
    folders = FolderChecks(answer_s=WAIT_S)
    for each in range(3 * MOST_WAITING):
        (short_tmp / str(each)).mkdir()
    requested = [folders.is_there(str(path), uid=os.getuid()) for path in short_tmp.iterdir()]
    assert all(await asyncio.gather(*requested))


@pytest.mark.root
async def test_a_lookup_uses_the_rights_of_the_user(short_tmp: Path) -> None:
    short_tmp.chmod(0o711)
    folder = short_tmp / "closed" / "below"
    folder.mkdir(parents=True)
    (folder / "entry").symlink_to("nowhere")
    folders = FolderChecks(answer_s=WAIT_S)
    for mode, seen in ((0o700, False), (0o711, True)):
        (short_tmp / "closed").chmod(mode)
        assert await folders.is_there(str(folder), uid=0)
        assert await folders.is_there(str(folder), uid=ADA) is seen
        assert await folders.holds(str(folder), "entry", uid=BOB) is seen
    assert not await folders.holds(str(folder), "other", uid=BOB)


@pytest.mark.lab
def test_hanging_lookups_delay_no_other_user(short_tmp: Path) -> None:
    short_tmp.chmod(0o711)
    with hanging_mount(short_tmp / "hangs") as mount:
        argv = [str(mount.path), str(short_tmp), str(ADA), str(BOB), str(MOST_WAITING)]
        result = subprocess.run(
            [*mount.inside, sys.executable, "-c", ASKS, *argv],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert (result.stdout, result.stderr) == ("over\n", "")
