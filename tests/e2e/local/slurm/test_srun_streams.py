"""srun under unusual conditions: full disks, closed descriptors, readers that have stopped, and arguments
that are no text.

The controller, the agent and the tasks are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.batch import run
from tests.support.home import Home, temporary_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module."""
    with temporary_home() as new_home:
        yield new_home


@pytest.mark.parametrize("option", ["> /dev/full", "-o /dev/full"])
def test_tasks_continue_if_their_output_cannot_be_written(home: Home, short_tmp: Path, option: str) -> None:
    task = "echo a; echo b >&2; touch done.$SLURM_PROCID; exit 5"
    output = run(home, short_tmp / "w", f"srun {option} sh -c '{task}'; echo $?\n", "-n2")
    assert (
        output.count("srun: error: output is lost, because it cannot be written: No space left on device\n")
        == 1
    )
    assert output.splitlines()[-1] == "5"
    assert sorted(path.name for path in (short_tmp / "w").glob("done.*")) == ["done.0", "done.1"]


def test_no_task_starts_if_its_output_file_cannot_be_opened(home: Home, short_tmp: Path) -> None:
    folder = short_tmp / "w"
    script = (
        "mkdir folder; echo >file\n"
        "for path in folder file/out file/%t.out; do\n"
        "  for option in -o -e; do srun $option $path sh -c 'touch began'; echo $?; done\n"
        "done\n"
        "srun -o deep/er/%s.%t.out -e deep/err echo kept; srun true\n"
        "cat deep/er/*.out; sacct -nXPj $SLURM_JOB_ID -o jobid; ls\n"
    )
    lines = run(home, folder, f"exec 2>&1\n{script}", "-n1").splitlines()
    refused = [line.rpartition(": ")[2] for line in lines if line.startswith("srun: error: cannot write ")]
    assert refused == ["Is a directory"] * 2 + ["Not a directory"] * 4, lines
    assert not (folder / "began").exists()
    assert "kept" in lines
    assert [path.name for path in (folder / "deep" / "er").iterdir()] == ["0.0.out"], "no step id was used"


def test_closed_descriptors_do_not_confuse_srun(home: Home, short_tmp: Path) -> None:
    script = (
        "srun -n1 cat <&-; echo in $?\n"
        "srun -n1 sh -c 'echo lost; exit 3' >&-; echo out $?\n"
        "srun -n1 sh -c 'echo kept; exit 4' 2>&-; echo err $?\n"
        "srun -n1 true <&- >&- 2>&-; echo all $?\n"
        "squeue -h -o '%i' <&- 2>&- | grep -c $SLURM_JOB_ID; squeue -h >&-; echo squeue $?\n"
    )
    lines = run(home, short_tmp / "w", script, "-n1").splitlines()
    assert lines.pop(1).endswith("task 0: Exited with exit code 3")
    assert lines == ["in 0", "out 3", "kept", "err 4", "all 0", "1", "squeue 0"]


def test_srun_with_a_stopped_reader_can_be_interrupted(home: Home, short_tmp: Path) -> None:
    script = (
        "mkfifo pipe; exec 7<>pipe\n"  # This reader never reads.
        "srun -n1 sh -c 'touch begun; yes' >&7 7>&- & srun=$!\n"
        "until [ -e begun ]; do sleep 0.05; done\n"
        "until grep -q pipe_write /proc/$srun/wchan /proc/$srun/stack 2>/dev/null; do sleep 0.05; done\n"
        "kill -INT $srun; until grep -q interrupt errors; do sleep 0.01; done; kill -INT $srun\n"
        "until grep -q 'sending Ctrl-C' errors; do sleep 0.01; done\n"
        "until [ -z \"$(squeue -s -h -j $SLURM_JOB_ID -o %i | grep '[.]0$')\" ]; do sleep 0.05; done\n"
        "cat <&7 >/dev/null & wait $srun; echo $?; kill %2\n"
    )
    lines = run(home, short_tmp / "w", f"exec 2>errors\n{script}", "-n1").splitlines()
    assert lines in (["130"], ["143"])  # The end is requested right after the interrupt.


def test_variables_that_are_not_utf_8_are_dropped_and_arguments_refused(home: Home, short_tmp: Path) -> None:
    script = (
        "export ODD=$'\\xfe'; srun -n1 sh -c 'echo \"<$ODD>\"'\n"
        "srun -n1 echo $'\\xfe'; echo $?\n"
        "mkdir gone; cd gone; rmdir ../gone; srun -n1 true; echo $?\n"
    )
    assert run(home, short_tmp / "w", script, "-n1").splitlines() == [
        "<>",
        "srun: error: a name or an argument is not UTF-8 text",
        "  rename the file or folder, or leave it out",
        "1",
        "srun: error: the current folder does not exist any more",
        "  change to one that does",
        "1",
    ]


def test_an_input_number_without_a_task_is_a_file_name(home: Home, short_tmp: Path) -> None:
    script = (
        "echo hello > 7; srun -l --input=7 cat; srun -l -o 8 echo out; cat 8\n"
        "echo x | srun -l --input=1 cat; srun --input=9 cat; echo $?\n"
    )
    lines = run(home, short_tmp / "w", script, "-n2").splitlines()
    assert sorted(lines[:2]) == ["0: hello", "1: hello"]
    assert sorted(lines[2:4]) == ["0: out", "1: out"]
    assert lines[4] == "1: x"
    assert lines[5].endswith("/9: No such file or directory")
    assert lines[6:] == ["  check --input", "1"]


def test_multi_prog_without_a_line_for_each_task_starts_nothing(home: Home, short_tmp: Path) -> None:
    script = "printf '0 touch a\\n2-3 touch b\\n' > p; srun -O -n4 --multi-prog p; echo $?; ls\n"
    lines = run(home, short_tmp / "w", script, "-n2").splitlines()
    assert lines[0] == "srun: error: Configuration file invalid, no record for task id 1"
    assert lines[2:] == ["1", "job.sh", "out", "p"]
