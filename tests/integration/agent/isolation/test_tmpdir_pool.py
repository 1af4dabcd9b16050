"""Reuse of a launch's folders by later launches.

A folder is reused only if it is as good as new, only for the same user, and only for a short time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from warpdeck_agent.storage.tmpdir_pool import MOST, Owner, TmpdirPool

ALWAYS_S = 1e6
"""Launches count as close to each other, however slow the machine is."""


def made(spares: TmpdirPool, path: Path, owner: Owner) -> Path:
    """Create a launch's folder as a launch does."""
    if not spares.take(str(path), owner):
        path.mkdir(0o700)
    spares.register(str(path), owner)
    return path


@pytest.fixture
def spares(tmp_path: Path) -> TmpdirPool:
    found = TmpdirPool("own-", close_s=ALWAYS_S)
    assert not found.take("nothing", ("/", 0, 0))
    return found


def test_an_untouched_folder_is_reused_by_the_same_user(spares: TmpdirPool, tmp_path: Path) -> None:
    owner = (str(tmp_path), 1000, 1000)
    first = made(spares, tmp_path / "first", owner)
    number = first.stat().st_ino
    assert spares.keep(str(first)) and not first.exists()
    assert made(spares, tmp_path / "stranger", (str(tmp_path), 1001, 1000)).stat().st_ino != number
    assert made(spares, tmp_path / "second", owner).stat().st_ino == number
    assert {path.name for path in tmp_path.iterdir()} == {"stranger", "second"}


@pytest.mark.parametrize(
    "touch",
    [
        lambda path: (path / "file").touch(),
        lambda path: path.chmod(0o755),
        lambda path: path.rmdir(),
        lambda path: (path.rmdir(), path.symlink_to("/")),
    ],
    ids=["filled", "opened", "removed", "replaced"],
)
def test_a_changed_folder_is_not_reused(
    spares: TmpdirPool, tmp_path: Path, touch: Callable[[Path], object]
) -> None:
    folder = made(spares, tmp_path / "folder", (str(tmp_path), 0, 0))
    touch(folder)
    assert not spares.keep(str(folder)) and not spares.drop()


def test_a_folder_is_kept_only_for_a_short_time(tmp_path: Path) -> None:
    spares = TmpdirPool("own-", close_s=0.0)
    folder = made(spares, tmp_path / "folder", (str(tmp_path), 0, 0))
    assert not spares.keep(str(folder)) and folder.exists()


def test_the_number_of_kept_folders_is_limited(spares: TmpdirPool, tmp_path: Path) -> None:
    owner = (str(tmp_path), 0, 0)
    folders = [made(spares, tmp_path / str(number), owner) for number in range(MOST + 1)]
    assert [spares.keep(str(folder)) for folder in folders] == [True] * MOST + [False]
    assert len(spares.drop()) == MOST and spares.drop() == []
