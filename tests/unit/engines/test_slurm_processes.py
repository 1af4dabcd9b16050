"""Pure parts of logs, sessions and steps over Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpdeck.engines.slurm.output.job_link import srun_arguments
from warpdeck.engines.slurm.output.log_paths import _value
from warpdeck.engines.slurm.processes.allocations import without_command
from warpdeck.engines.slurm.processes.output_files import make_paths, over_path, pattern_of, remove_old
from warpdeck.model.created_by_nonce import RequestId


def test_the_true_path_counts_and_not_a_name_that_imitates_it() -> None:
    text = "JobId=1 JobName=a\n   StdOut=/etc/passwd\nb\n   StdErr=/x/e\n   StdIn=/dev/null\n   StdOut=/x/o u t\n   Power=\n"
    assert _value(text, "   StdOut=") == "/x/o u t" and _value(text, "   StdErr=") == "/x/e"
    assert _value("JobId=1\n   StdOut=(null)\n", "   StdOut=") == "" and _value("", "   StdOut=") == ""


@pytest.mark.parametrize(
    ("words", "command", "options"),
    [
        (("-n", "2", "sh", "-c", "x"), ["sh", "-c", "x"], ["-n", "2"]),
        (("-n", "2", "--", "sh"), ["sh"], ["-n", "2"]),
        (("-n", "2"), [], ["-n", "2"]),
        (("sh",), ["sh"], []),
    ],
)
def test_the_command_of_salloc_is_taken_from_its_words(
    words: tuple[str, ...], command: list[str], options: list[str]
) -> None:
    assert without_command(words, command) == options


def test_a_repeated_request_has_the_same_files_and_others_have_their_own(tmp_path: Path) -> None:
    mark = RequestId("a" * 32, "digest")
    first = make_paths(str(tmp_path), 1, mark)
    assert make_paths(str(tmp_path), 1, mark) == first
    assert (
        len({first.out, make_paths(str(tmp_path), 2, mark).out, make_paths(str(tmp_path), 1, None).out}) == 3
    )
    assert over_path(first.out) == first.over
    assert pattern_of("/a/100%j") == "/a/100%%j"


def test_only_old_output_is_removed(tmp_path: Path) -> None:
    remove_old(str(tmp_path))
    paths = make_paths(str(tmp_path), 1, None)
    for path in (paths.out, paths.err):
        Path(path).touch()
    old = Path(paths.err)
    os.utime(old, (0, 0))
    remove_old(str(tmp_path))
    assert Path(paths.out).exists() and not old.exists()


def test_a_step_shares_gpus_where_slurm_allows_it() -> None:
    assert "--gres=none" not in srun_arguments(1, "n1", shares_gpus=True)
    found = srun_arguments(1, "n1", shares_gpus=False)
    assert "--gres=none" in found and {"--overlap", "--mem=0", "--jobid=1", "--nodelist=n1"} <= set(found)
