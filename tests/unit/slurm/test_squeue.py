"""squeue over the rows of a small cluster: one job has failed, one runs on two GPUs, and an array is held."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, Self

import msgspec
import pytest
from tests.support.core import Core, make_request

from warpdeck.controller.presenters.job_columns import JOB_FIELDS, row_maker
from warpdeck.model import ArraySpec
from warpdeck.slurm.console.console import Console, ControllerAccess, StandardStreams
from warpdeck.slurm.format.units import stamped
from warpdeck.slurm.runtime.commands import run
from warpdeck.slurm.viewers.squeue_columns import job_columns


def cluster() -> Core:
    core = Core("n1", "n2")
    core.end(core.run(make_request("ended", comment="sweep")), exit_code=3)
    core.run(make_request("runs", gpus=2, time_limit_s=3600))
    core.submit(make_request("array", array=ArraySpec(ranges=((1, 99, 2),), throttle=3), hold=True))
    return core


CORE = cluster()
ROWS: list[dict[str, Any]] = msgspec.to_builtins(
    row_maker(CORE.state, JOB_FIELDS, now=CORE.now)(list(CORE.state.jobs.values()))
)
FIELDS = job_columns(now=CORE.now)


class Answers:
    """A connection whose controller has these jobs. It keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def call(self, kind: str, **fields: Any) -> dict[str, Any]:
        assert kind == "jobs"
        self.requests.append(fields)
        ids = {int(word.partition("_")[0]) for word in fields.get("ids", ())}
        states = set(fields.get("states", ())) or {"PENDING", "RUNNING"}
        return {"jobs": [row for row in ROWS if (row["id"] in ids if ids else row["state"] in states)]}


def squeue(*words: str, answers: Answers | None = None, **env: str) -> tuple[int, list[str], str]:
    """Return the exit code, the lines of the standard output, and the standard error."""
    out, err = io.StringIO(), io.StringIO()
    connection: Any = answers or Answers()
    console = Console(
        streams=StandardStreams(io.StringIO(), out, err),
        controller=ControllerAccess(lambda: connection),
        env=env,
        folder="/",
        user="ann",
        host="login",
        read_file=lambda path, size: b"",
    )
    return run("squeue", list(words), console), out.getvalue().splitlines(), err.getvalue()


@pytest.mark.parametrize(
    ("field", "printed"),
    [
        ("jobarrayid", ("1", "2", "3_[1,3,5,7,9,11,13,15,17,19,21,")),
        ("arraytaskid", ("N/A", "N/A", "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,43...%3")),
        ("name", ("ended", "runs", "array")),
        ("account", ("(null)",) * 3),
        ("comment", ("sweep", "(null)", "(null)")),
        ("nodelist", ("n1", "n1", "")),
        ("batchhost", ("n1", "n1", "n/a")),
        ("reason", ("NonZeroExitCode", "None", "JobHeldUser")),
        ("reasonlist", ("(NonZeroExitCode)", "n1", "(JobHeldUser)")),
        ("state", ("FAILED", "RUNNING", "PENDING")),
        ("statecompact", ("F", "R", "PD")),
        ("exit_code", ("768", "0", "0")),
        ("gres", ("N/A", "gres:gpu:2", "N/A")),
        ("timelimit", ("UNLIMITED", "1:00:00", "UNLIMITED")),
        ("timeleft", ("UNLIMITED", "1:00:00", "UNLIMITED")),
        ("submittime", (f"{CORE.now:.0f}",) * 3),
        ("endtime", (f"{CORE.now:.0f}", f"{CORE.now + 3600:.0f}", "N/A")),
        ("stdout", ("/slurm-1.out", "/slurm-2.out", "/slurm-3_4294967294.out")),
    ],
)
def test_a_field_is_printed_as_slurm_prints_it(field: str, printed: tuple[str, ...]) -> None:
    with stamped({"SLURM_TIME_FORMAT": "%s"}):
        assert tuple(FIELDS[field].text(row) for row in ROWS) == printed


def test_every_field_prints_one_line_and_names_the_columns_that_it_reads() -> None:
    for name, field in FIELDS.items():
        for row in ROWS:
            read = {column: row[column] for column in field.needs.split()}
            assert "\n" not in field.text(read), name


def test_every_letter_of_squeue_is_there_once() -> None:
    letters = [field.letter for field in FIELDS.values() if field.letter]
    assert sorted(letters) == sorted(set(letters))
    assert set("aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ") == set(letters)


def test_the_default_listing() -> None:
    assert squeue() == (
        0,
        [
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
            "3_[1,3,5,7,9,11,13      main    array      ann PD       0:00      1 (JobHeldUser)",
            "                 2      main     runs      ann  R       0:00      1 n1",
        ],
        "",
    )


def test_only_the_columns_that_are_printed_are_requested() -> None:
    answers = Answers()
    squeue("-h", "-o", "%j", answers=answers)
    assert "name" in answers.requests[0]["fields"] and "work_dir" not in answers.requests[0]["fields"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("-h -o %i|%j", ["3_[1,3,5,7,9,11,13,15,17,19,21,|array", "2|runs"]),
        ("-h -O jobid:3,state:", ["3  PENDING", "2  RUNNING"]),
        ("-h -t all -S i -o %A", ["1", "2", "3"]),
        ("-h -t all -S -i -o %A", ["3", "2", "1"]),
        ("-h -t F -o %j", ["ended"]),
        ("-h -j 2 -o %j", ["runs"]),
    ],
)
def test_options_choose_sort_and_lay_out(words: str, lines: list[str]) -> None:
    code, out, err = squeue(*words.split())
    assert (code, [line.rstrip() for line in out], err) == (0, lines, "")


@pytest.mark.parametrize(
    ("variable", "value", "lines"),
    [
        ("SQUEUE_FORMAT", "%j", ["array", "runs"]),
        ("SQUEUE_FORMAT2", "name:", ["array", "runs"]),
    ],
)
def test_variables_stand_for_options(variable: str, value: str, lines: list[str]) -> None:
    assert squeue("-h", answers=None, **{variable: value})[1] == lines


def test_json_holds_the_jobs_of_all_states() -> None:
    jobs = json.loads("\n".join(squeue("--json")[1]))["jobs"]
    assert next((job["job_id"], job["job_state"], job["name"]) for job in jobs) == (1, "FAILED", "ended")


def refused(*words: str) -> str:
    code, _, err = squeue(*words)
    assert code == 1
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "nosuch"], "squeue: error: Invalid job state specified: nosuch"),
        (["-S", "!"], "squeue: error: Invalid sort specification"),
        (["-o", "%i", "-O", "name"], "squeue: error: -O (--Format) is incompatible with -o (--format)"),
        (["-j", "99"], "slurm_load_jobs error: Invalid job id specified"),
        (["word"], "squeue: error: Unrecognized option: word"),
        (["-M", "other"], "squeue: error: No cluster 'other' known by database."),
    ],
)
def test_a_wrong_line_is_refused_in_slurms_words(words: Sequence[str], message: str) -> None:
    assert message in refused(*words)
