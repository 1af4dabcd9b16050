"""The wheel of a release: the same bytes wherever it is built, and with nothing but our packages."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMITTED_AT = "1750000000"
"""The time of the commit, in seconds since 1970, as `make release` takes it from Git."""
pytestmark = pytest.mark.slow


def build(folder: Path, umask: int) -> Path:
    """Copy the tree into the folder, with other times and modes of its files, and build the wheel there."""
    tree, wheels = folder / "tree", folder / "wheels"
    tree.mkdir(parents=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    files = [name for name in names.split(b"\0") if name and (ROOT / os.fsdecode(name)).is_file()]
    copied = ["cp", "--parents", "--no-preserve=mode,timestamps", "-t", str(tree), *map(os.fsdecode, files)]
    subprocess.run(copied, cwd=ROOT, check=True, umask=umask)
    environ = os.environ | {"SOURCE_DATE_EPOCH": COMMITTED_AT}
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(wheels),
        str(tree),
    ]
    subprocess.run(wheel, check=True, env=environ, umask=umask)
    [made] = wheels.iterdir()
    return made


def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a", 0o022), build(tmp_path / "second folder", 0o077)
    assert first.name == second.name
    digests = {hashlib.sha256(each.read_bytes()).hexdigest() for each in (first, second)}
    assert len(digests) == 1, contents(first) ^ contents(second)
    folders = {name.partition("/")[0] for name, _, _ in contents(first)}
    assert {name for name in folders if not name.endswith(".dist-info")} == {
        "warpdeck",
        "warpdeck_tui",
        "warpdeck_agent",
    }


def contents(wheel: Path) -> set[tuple[str, int, int]]:
    """Return the name, the checksum and the mode of each file of the wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return {(each.filename, each.CRC, each.external_attr >> 16) for each in opened.infolist()}
