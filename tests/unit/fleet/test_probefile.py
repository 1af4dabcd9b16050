"""Whoever names a folder has nothing made in it that they could not make there themselves, though root looks for them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from warpdeck.fleet.probefile import ProbeFile

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
