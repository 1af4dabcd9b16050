"""A root agent looks for folders with the rights of the user who asks, and users whose folders hang hold up nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.hangs import hanging_mount
from tests.unit.agent.conftest import ADA, BOB
from tests.waiting import WAIT_S

from warpdeck_agent.folders import MOST_HANGING, Folders

ASKS = """
import asyncio, os, sys
from warpdeck_agent.folders import Folders
from warpdeck_agent.refusal import LaunchError

async def hangs(folders, path, uid):
    try:
        await folders.is_there(path, uid=uid)
    except LaunchError as error:
        assert "does not answer" in str(error)
        return True

async def main(mount, folder, user, other, most):
    slow, soon = Folders(answer_s=600.0), Folders(answer_s=0.2)
    hanging = [asyncio.create_task(hangs(slow, f"{mount}/{each}", user)) for each in range(most)]
    await asyncio.sleep(0)
    assert await hangs(slow, f"{mount}/one-more", user), "no more than so many questions wait"
    assert await slow.is_there(folder, uid=other), "others are answered"
    assert await hangs(soon, mount, user)
    assert not any(task.done() for task in hanging)
    print("over", flush=True)
    os._exit(0)

asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
"""


@pytest.mark.root
async def test_a_folder_is_there_for_those_who_may_see_it(short_tmp: Path) -> None:
    short_tmp.chmod(0o711)
    folder = short_tmp / "closed" / "below"
    folder.mkdir(parents=True)
    (folder / "entry").symlink_to("nowhere")
    folders = Folders(answer_s=WAIT_S)
    for mode, seen in ((0o700, False), (0o711, True)):
        (short_tmp / "closed").chmod(mode)
        assert await folders.is_there(str(folder), uid=0)
        assert await folders.is_there(str(folder), uid=ADA) is seen
        assert await folders.holds(str(folder), "entry", uid=BOB) is seen
    assert not await folders.holds(str(folder), "other", uid=BOB)


@pytest.mark.lab
def test_questions_that_hang_hold_up_nobody_else(short_tmp: Path) -> None:
    short_tmp.chmod(0o711)
    with hanging_mount(short_tmp / "hangs") as mount:
        words = [str(mount.path), str(short_tmp), str(ADA), str(BOB), str(MOST_HANGING)]
        done = subprocess.run(
            [*mount.inside, sys.executable, "-c", ASKS, *words],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("over\n", "")
