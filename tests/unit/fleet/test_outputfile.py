"""Opening output files on the submit host: folders, modes, and files that are not regular."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck.fleet.outputfile import open_for_append


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """The umask of the controller."""
    old = os.umask(0o077)
    yield
    os.umask(old)


def test_missing_folders_are_created_with_the_users_umask(tmp_path: Path, strict_umask: None) -> None:
    os.close(open_for_append(str(tmp_path / "a" / "b" / "x.out"), truncate=False, umask=0o027))
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "a" / "b" / "x.out").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("truncate", "left"), [(True, b"new"), (False, b"oldnew")])
def test_an_existing_file_is_truncated_or_appended_to(tmp_path: Path, truncate: bool, left: bytes) -> None:
    path = tmp_path / "x.out"
    path.write_bytes(b"old")
    path.chmod(0o600)
    descriptor = open_for_append(str(path), truncate=truncate, umask=0o022)
    os.write(descriptor, b"new")
    os.close(descriptor)
    assert path.read_bytes() == left
    assert path.stat().st_mode & 0o777 == 0o600, "an old file keeps its mode"


def test_a_pipe_or_folder_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError):
            open_for_append(str(tmp_path / name), truncate=False, umask=0o022)
