"""Removal of a job's files by a root agent: links that a user swaps in meanwhile cannot redirect it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.agent.conftest import ADA
from tests.support.waiting import WAIT_S

from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.linux.safe_paths import enter, make_folder, opened

pytestmark = pytest.mark.lab

SWAP = """
import os, sys
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
folder = sys.argv[1]
os.rename(folder + "/a", folder + "/b")
os.symlink(sys.argv[3], folder + "/a")
"""


@pytest.fixture
def mounts() -> Iterator[list[Path]]:
    """A list of file systems that are unmounted after the test."""
    mount_points: list[Path] = []
    yield mount_points
    for path in reversed(mount_points):
        subprocess.run(["umount", "--lazy", "--quiet", str(path)], check=False)


def mount(mounts: list[Path], path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
    mounts.append(path)


def create_user_file(folder: Path) -> None:
    subprocess.run(["chown", "-R", str(ADA), str(folder)], check=True)


def test_a_swapped_in_link_does_not_redirect_an_unmount(short_tmp: Path, mounts: list[Path]) -> None:
    """The agent knows the mounts. Before the unmount, the user puts a link into the path of one of them."""
    short_tmp.chmod(0o711)
    victim, own = short_tmp / "outside", short_tmp / "own"
    mount(mounts, victim / "data")
    (victim / "data/precious").touch()
    mount(mounts, own / "a/data")
    create_user_file(own)
    program = (
        "import subprocess, sys\n"
        "from warpdeck_agent.linux import folder_removal, mounts\n"
        "listed, swap = mounts.mounted, [sys.executable, '-c', *sys.argv[2:]]\n"
        "def swapped():\n"
        "    found = listed()\n"
        "    if swap:\n"
        "        subprocess.run(swap, check=True)\n"
        "        swap.clear()\n"
        "    return found\n"
        "mounts.mounted = swapped\n"
        "sys.exit(not folder_removal.remove_tree(sys.argv[1]))\n"
    )
    argv = [sys.executable, "-c", program, str(own), SWAP, str(own), str(ADA), str(victim)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert result.stderr == ""
    assert os.path.ismount(victim / "data") and (victim / "data/precious").exists()
    assert (result.returncode, own.exists()) == (0, False)


def test_nested_mounts_are_unmounted_and_their_files_stay(short_tmp: Path, mounts: list[Path]) -> None:
    own, kept = short_tmp / "own", short_tmp / "kept"
    kept.mkdir()
    (kept / "weights").touch()
    for path in (own / "a", own / "a/b", own / "a", own / "c d"):
        mount(mounts, path)
    subprocess.run(["mount", "--bind", str(kept), str(own / "c d")], check=True)
    (own / "file").touch()
    subprocess.run(["mount", "--bind", str(kept / "weights"), str(own / "file")], check=True)
    assert remove_tree(str(own)) and not own.exists()
    assert (kept / "weights").exists()
    assert str(own) not in Path("/proc/self/mountinfo").read_text()


def test_a_mount_over_the_folder_itself_is_unmounted(short_tmp: Path, mounts: list[Path]) -> None:
    own = short_tmp / "own"
    mount(mounts, own)
    (own / "file").touch()
    assert remove_tree(str(own)) and not own.exists()


def test_a_link_in_the_place_of_a_folder_is_itself_removed(short_tmp: Path) -> None:
    (short_tmp / "outside").mkdir()
    (short_tmp / "outside/precious").touch()
    (short_tmp / "own").symlink_to("outside")
    assert remove_tree(str(short_tmp / "own"))
    assert not os.path.lexists(short_tmp / "own") and (short_tmp / "outside/precious").exists()


def test_links_are_neither_followed_nor_chowned(short_tmp: Path) -> None:
    (short_tmp / "there/below").mkdir(parents=True)
    (short_tmp / "link").symlink_to("there")
    with opened(str(short_tmp)) as top:
        os.close(enter(top, ["there", "below"]))
        for parts in (["link"], ["link", "below"], ["there", ".."]):
            with pytest.raises(OSError):
                enter(top, parts)
    with pytest.raises(FileExistsError):
        make_folder(str(short_tmp / "link"), 0o700, uid=ADA, gid=ADA)
    make_folder(str(short_tmp / "own"), 0o700, uid=ADA, gid=ADA)
    assert (short_tmp / "own").stat().st_uid == ADA and (short_tmp / "there").stat().st_uid == 0
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(short_tmp / "own")
