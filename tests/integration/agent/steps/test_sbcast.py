import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck_agent.client import sbcast
from warpdeck_agent.client.access import CommandRefused

JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "9", "SRUN_OUTPUT": "x", "WARPDECK_TOKEN": "t"}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file, and a standard input that the test may replace."""
    path = tmp_path / "data"
    path.write_bytes(b"bytes")
    path.chmod(0o640)
    os.utime(path, (5, 5))
    kept = os.dup(0)
    monkeypatch.chdir(tmp_path)
    yield path
    os.dup2(kept, 0)
    os.close(kept)


class Step:
    """A stand-in for srun that records its arguments and its standard input."""

    def __call__(self, argv: list[str], environ: dict[str, str]) -> int:
        self.words, self.environ, self.read = argv, environ, os.read(0, 100)
        return 3


def test_sbcast_sends_the_file_to_one_task_per_node(source: Path) -> None:
    step = Step()
    assert sbcast.main(["-C", "-F4", "data", "copy"], JOB, step) == 3
    assert step.read == b"bytes"
    assert step.words[0] == "--jobid=7" and "--ntasks-per-node=1" in step.words
    assert step.words[-6:] == ["sbcast", str(source.parent / "copy"), "640", "", "", "data"]


def test_variables_that_act_as_options_of_srun_are_removed(source: Path) -> None:
    step = Step()
    sbcast.main(["data", "/there"], JOB, step)
    assert step.environ == {"SLURM_JOB_ID": "7", "WARPDECK_TOKEN": "t"}


def test_options_and_variables_have_the_same_effect(source: Path) -> None:
    by_words, by_names = Step(), Step()
    sbcast.main(["data", "/there", "--force", "--preserve", "--jobid=8.2", "--send-libs"], JOB, by_words)
    sbcast.main(
        ["data", "/there"], {"SLURM_JOB_ID": "8", "SBCAST_FORCE": "1", "SBCAST_PRESERVE": "1"}, by_names
    )
    assert by_words.words == by_names.words
    assert by_words.words[-4:] == ["640", "1", "5", "data"]


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    [
        (["data"], JOB, "Need two file names, have 1 names"),
        (["data", "b", "c"], JOB, "Need two file names, have 3 names"),
        (["data", "b"], {}, "Need a job id to run this command."),
        (["none", "b"], JOB, "Can't open `none`: No such file or directory"),
        ([".", "b"], JOB, "`.` is not a regular file"),
        (["--nosuch", "data", "b"], JOB, "option --nosuch not recognized"),
    ],
)
def test_a_file_that_cannot_be_copied_is_reported(
    source: Path, argv: list[str], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(CommandRefused) as refused:
        sbcast.main(argv, environ, Step())
    assert refused.value.message == message


def test_the_help_text_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sbcast.main(["--help"], {}, Step()) == 0
    assert "sbcast my.prog /tmp/my.prog" in capsys.readouterr().out
