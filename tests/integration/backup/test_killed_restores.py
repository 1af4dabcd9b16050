"""A restore that is killed at any line leaves the old state or the new state, and never a mixture."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.integration.backup import killed_restores
from tests.support.home_state import change, job_ids, make_home

from warpdeck.backup.create import make_backup
from warpdeck.backup.pending import finish_restore
from warpdeck.backup.verify import verify
from warpdeck.base.paths import Paths

POINTS = 15
OLD, NEW = ([1, 2, 3, 4, 5], "grace_s = 20\n", "newer\n"), (list(range(1, 11)), "grace_s = 10\n", "private\n")


def state(home: Path) -> tuple[list[int], str, str]:
    return job_ids(home), (home / "config.toml").read_text(), (home / "ssh" / "id_ed25519").read_text()


def restores(backup: Path, *homes: tuple[Path, int], verb: str = "restore") -> list[int]:
    words = [str(word) for pair in homes for word in pair]
    done = subprocess.run(
        [sys.executable, killed_restores.__file__, verb, str(backup), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


def older_home(path: Path, template: Path) -> Path:
    """Copy the home of a controller that was killed, so its changes are still in the -wal file."""
    shutil.copytree(template, path)
    return path


def test_a_restore_that_is_killed_at_any_line_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    home, backup = make_home(tmp_path / "home"), tmp_path / "backup"
    make_backup(Paths(str(home)), str(backup), with_keys=True, with_trees=True, show=lambda text: None)
    template = tmp_path / "template"
    with contextlib.closing(sqlite3.connect(home / "state.db")) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("DELETE FROM jobs WHERE id > 5")
        db.commit()
        (home / "config.toml").write_text(OLD[1])
        (home / "ssh" / "id_ed25519").write_text(OLD[2])
        shutil.copytree(home, template)
    [lines] = restores(backup, (older_home(tmp_path / "counted", template), 0))
    assert state(tmp_path / "counted") == NEW
    points = sorted({*range(lines - 80, lines, 3), *(1 + n * lines // POINTS for n in range(POINTS))})
    homes = [older_home(tmp_path / f"home{point}", template) for point in points]
    assert set(restores(backup, *zip(homes, points, strict=True))) == {-9}
    found = []
    for each in homes:
        finish_restore(Paths(str(each)))
        assert not (each / "restore").exists()
        found.append(state(each))
        if found[-1] == NEW:
            [replaced] = each.glob("replaced-*")
            assert state(replaced) == OLD
        assert sorted(path.name for path in (each / "trees" / "1000").iterdir()) == ["abc.tar.gz"]
    assert [each for each in found if each not in (OLD, NEW)] == []
    assert found == sorted(found, key=lambda each: each == NEW), "after the decision, the state is new"
    assert OLD in found
    assert NEW in found[:-1]


def test_a_restore_after_a_killed_one_and_a_check_finish_it(tmp_path: Path) -> None:
    home, backup = make_home(tmp_path / "home"), tmp_path / "backup"
    make_backup(Paths(str(home)), str(backup), show=lambda text: None)
    change(home, "DELETE FROM past WHERE id > 5", "DELETE FROM jobs WHERE id > 5")
    lines = restores(backup, (older_home(tmp_path / "counted", home), 0))[0]
    points = range(lines - 55, lines - 15, 5)
    homes = [older_home(tmp_path / f"home{point}", home) for point in points]
    restores(backup, *zip(homes, points, strict=True))
    for each in homes:
        verify(Paths(str(each)), None, show=lambda text: None)
        assert not (each / "restore").exists()
    assert min(restores(backup, *((each, 0) for each in homes))) > 0
    for each in homes:
        assert job_ids(each) == list(range(1, 11))
        assert not [path for path in each.iterdir() if path.name.startswith("restore")]


def test_a_backup_that_is_killed_at_any_line_leaves_no_file_and_the_next_one_cleans_up(
    tmp_path: Path,
) -> None:
    home, folder = make_home(tmp_path / "home"), tmp_path / "folder"
    folder.mkdir()
    [lines] = restores(folder / "backup", (home, 0), verb="backup")
    points = sorted({*range(1, lines, lines // 20), lines - 5, lines - 1})
    killed = restores(folder / "backup", *((home, point) for point in points), verb="backup")
    assert set(killed) == {-9}
    complete = [path for path in folder.iterdir() if path.is_file()]
    for path in complete:  # the last ones are killed after the rename
        assert verify(Paths(str(home)), str(path), show=lambda text: None).problems == ()
    assert 1 <= len(complete) <= 3
    make_backup(Paths(str(home)), str(folder / "last"), show=lambda text: None)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set()
