"""A session counts as shown exactly while a terminal shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.base.paths import Paths
from warpdeck.client.open_terminals import is_shown, shown


def test_a_session_is_shown_until_its_last_terminal_leaves_it(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    assert not is_shown(paths, "12")
    with shown(paths, "12"):
        with shown(paths, "12"):
            assert is_shown(paths, "12") and not is_shown(paths, "13")
        assert is_shown(paths, "12")
    assert not is_shown(paths, "12")
    assert list(Path(paths.terminals).iterdir()) == []


@pytest.mark.parametrize("label", ["../x", "", "12_", "a"])
def test_only_labels_of_jobs_become_files(tmp_path: Path, label: str) -> None:
    paths = Paths(str(tmp_path))
    with shown(paths, label):
        assert not Path(paths.terminals).exists()


def test_a_folder_that_cannot_be_written_prevents_nothing(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    Path(paths.terminals).write_text("no folder")
    with shown(paths, "12"):
        assert not is_shown(paths, "12")
