"""Files of users on the submit host are opened by a process of the user, and a hanging one delays no other
user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lab.hangs import hanging_mount
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.fleet.userfiles import MAX_HUNG, PIECE_BYTES, UserFiles

NOBODY = pwd.getpwnam("nobody")
US = os.getuid()


@pytest.fixture
async def files() -> AsyncIterator[UserFiles]:
    new_user_files = UserFiles(answer_s=WAIT_S)
    yield new_user_files
    await new_user_files.close()


@pytest.fixture
def other_folder(short_tmp: Path) -> Path:
    """A folder of another user."""
    short_tmp.chmod(0o711)
    folder = short_tmp / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


async def test_appended_data_can_be_read_again(files: UserFiles, short_tmp: Path) -> None:
    path = str(short_tmp / "new" / "x.out")
    data = os.urandom(PIECE_BYTES + 10)
    file = await files.append(path, uid=US, truncate=False, umask=0o022)
    assert (file.length, await file.write(data), await file.length_now()) == (0, len(data), len(data))
    await file.close()
    later = await files.append(path, uid=US, truncate=False, umask=0o022)
    assert (later.length, await later.write(b"end")) == (len(data), 3)
    read = await files.read(path, uid=US)
    assert read.length == len(data) + 3
    assert await read.piece(0) + await read.piece(PIECE_BYTES) == data + b"end"
    assert await read.piece(read.length) == b""
    await asyncio.gather(later.close(), read.close())


async def test_a_device_is_not_written(files: UserFiles, short_tmp: Path) -> None:
    (short_tmp / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="not a regular file"):
        await files.append(str(short_tmp / "full"), uid=US, truncate=False, umask=0o022)


async def test_only_regular_files_are_read(files: UserFiles, short_tmp: Path) -> None:
    os.mkfifo(short_tmp / "pipe")
    (short_tmp / "null").symlink_to("/dev/null")
    (short_tmp / "terminal").symlink_to("/dev/ptmx")
    for name in ("pipe", "null", "terminal", "."):
        with pytest.raises(OSError, match=r"regular file|directory"):
            await files.read(str(short_tmp / name), uid=US)


@pytest.mark.root
async def test_files_are_opened_with_the_rights_of_the_user(
    files: UserFiles, other_folder: Path, short_tmp: Path
) -> None:
    secret = short_tmp / "root-only"
    secret.write_text("kept")
    secret.chmod(0o600)
    (other_folder / "link").symlink_to(secret)
    for path in (secret, other_folder / "link"):
        with pytest.raises(PermissionError):
            await files.read(str(path), uid=NOBODY.pw_uid)
        with pytest.raises(PermissionError):
            await files.append(str(path), uid=NOBODY.pw_uid, truncate=True, umask=0o022)
    with pytest.raises(PermissionError):
        await files.append(str(short_tmp / "new"), uid=NOBODY.pw_uid, truncate=True, umask=0o022)
    assert secret.read_text() == "kept"


@pytest.mark.root
async def test_created_files_belong_to_the_user(files: UserFiles, other_folder: Path) -> None:
    path = other_folder / "deep" / "x.out"
    file = await files.append(str(path), uid=NOBODY.pw_uid, truncate=True, umask=0o077)
    await file.close()
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (NOBODY.pw_uid, NOBODY.pw_gid, 0o600)
    async with files.probe(str(other_folder), uid=NOBODY.pw_uid, answer_s=WAIT_S) as name:
        assert (other_folder / name).stat().st_uid == NOBODY.pw_uid
        other_folder.rename(other_folder.parent / "moved")
        other_folder.mkdir()
    assert [each.name for each in (other_folder.parent / "moved").iterdir()] == ["deep"]


@pytest.mark.root
async def test_no_probe_file_is_created_without_the_rights_of_the_user(
    files: UserFiles, other_folder: Path
) -> None:
    os.chown(other_folder, 0, 0)
    with pytest.raises(PermissionError):
        async with files.probe(str(other_folder), uid=NOBODY.pw_uid, answer_s=WAIT_S):
            pass
    assert not list(other_folder.iterdir())


async def test_a_cancelled_request_leaves_no_probe_file(files: UserFiles, short_tmp: Path) -> None:
    async def ask() -> None:
        async with files.probe(str(short_tmp), uid=US, answer_s=WAIT_S):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(ask()) for _ in range(20)]
    await eventually_async(lambda: any(short_tmp.iterdir()), what="a process exists")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await eventually_async(lambda: not any(short_tmp.iterdir()), what="all processes have ended")
    with contextlib.suppress(asyncio.CancelledError):
        await tasks[0]


BESIDE_A_HANG = """
import asyncio, sys
from warpdeck.fleet.userfiles import UserFiles

LONG_S, SOON_S = 600.0, 0.3

async def hangs(files, path, uid, answer_s):
    try:
        async with files.probe(path, uid=uid, answer_s=answer_s):
            pass
    except TimeoutError as error:
        return error.strerror
    raise AssertionError(path)

async def append(files, path, uid):
    file = await files.append(path, uid=uid, truncate=False, umask=0o022)
    await file.write(b"well")
    await file.close()

async def main(mount, folder, user, other, most):
    files = UserFiles(answer_s=LONG_S)
    hanging = [asyncio.create_task(hangs(files, f"{mount}/{each}", user, LONG_S)) for each in range(3)]
    await asyncio.sleep(0)
    for uid in (other, 0):  # while those wait
        await append(files, f"{folder}/{uid}.out", uid)
    assert not any(task.done() for task in hanging)
    assert await hangs(files, f"{mount}/0", user, SOON_S) == "file system does not answer"
    await append(files, f"{folder}/own.out", user)  # elsewhere, the user goes on
    assert await hangs(files, f"{mount}/0", user, LONG_S), "what hangs is not asked again"
    for each in range(most - 1):
        assert await hangs(files, f"{mount}/more{each}", user, SOON_S)
    assert await hangs(files, f"{mount}/last", user, LONG_S), "no more than so many processes hang"
    for task in hanging:
        task.cancel()
    await files.close()

asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
print("over")
"""


@pytest.mark.lab
def test_a_hanging_file_system_of_a_user_delays_no_other_user(short_tmp: Path) -> None:
    short_tmp.chmod(0o711)
    folder = short_tmp / "out"
    folder.mkdir()
    folder.chmod(0o777)
    with hanging_mount(short_tmp / "hangs") as mount:
        argv = [str(mount.path), str(folder), str(NOBODY.pw_uid), "61999", str(MAX_HUNG)]
        result = subprocess.run(
            [*mount.inside, sys.executable, "-c", BESIDE_A_HANG, *argv],
            capture_output=True,
            text=True,
            timeout=WAIT_S * 2,
            check=False,
        )
        assert (result.stdout, result.stderr) == ("over\n", "")
    assert (folder / "61999.out").stat().st_uid == 61999
