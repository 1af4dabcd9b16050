"""The folder of a terminal of a Slurm job is private, found by the job's number, and removed when its job is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck_agent.attach import terminal_folder


@pytest.fixture
def bases(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    first, second = short_tmp / "a", short_tmp / "b"
    for folder in (first, second):
        folder.mkdir()
    monkeypatch.setattr(terminal_folder, "BASES", (str(first), str(second)))
    yield first, second


def own(base: Path) -> Path:
    return base / f"warpdeck-{os.getuid()}"


def test_the_job_and_its_steps_use_the_same_folder(bases: tuple[Path, Path]) -> None:
    key = terminal_folder.key_of({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "1"})
    assert key == "12-1" and terminal_folder.key_of({"SLURM_JOB_ID": "12"}) == "12-0"
    assert terminal_folder.find(key) is None
    made = terminal_folder.make(key)
    assert made == str(own(bases[0]) / "12-1") and terminal_folder.find(key) == made
    assert os.stat(made).st_mode & 0o777 == 0o700
    terminal_folder.remove(made)
    assert terminal_folder.find(key) is None


def test_a_folder_that_others_can_open_is_not_used(bases: tuple[Path, Path]) -> None:
    own(bases[0]).mkdir(mode=0o777)
    own(bases[0]).chmod(0o777)
    assert terminal_folder.make("1-0") == str(own(bases[1]) / "1-0")
    (own(bases[0]) / "1-0").mkdir(mode=0o700)
    assert terminal_folder.find("1-0") == str(own(bases[1]) / "1-0")


def test_a_link_to_another_folder_is_not_used(bases: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own(bases[0]).symlink_to(tmp_path / "elsewhere")
    assert terminal_folder.make("1-0") == str(own(bases[1]) / "1-0")


@pytest.mark.root
def test_a_folder_of_another_user_is_not_used(bases: tuple[Path, Path]) -> None:
    own(bases[0]).mkdir(mode=0o700)
    os.chown(own(bases[0]), 65534, 65534)
    assert terminal_folder.make("1-0") == str(own(bases[1]) / "1-0")


def test_folders_of_killed_jobs_are_removed_and_those_of_others_stay(bases: tuple[Path, Path]) -> None:
    killed, running, starting = (terminal_folder.make(key) for key in ("1-0", "2-0", "3-0"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(running, terminal_folder.SOCKET))
        listener.listen()
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(os.path.join(killed, terminal_folder.SOCKET))
        terminal_folder.make("4-0")
        assert [os.path.isdir(folder) for folder in (killed, running, starting)] == [False, True, True]


def test_words_that_are_no_job_have_no_folder() -> None:
    assert terminal_folder.key_of({}) == ""
    assert terminal_folder.key_of({"SLURM_JOB_ID": "../x"}) == ""
