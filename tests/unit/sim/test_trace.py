"""Workload logs: the parsed values, and one sentence with file and line for each bad log."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.sim import trace as logs
from warpdeck.sim.trace import TraceJob, read_trace

HEADER = (
    "job_id,user,account_or_vc,submit_s,runtime_s,timelimit_s,nodes,gpus,cpus,mem_mb,state,wait_logged_s\n"
)
SWF_JOB = "7 100 5 60 4 -1 -1 8 3600 -1 1 12 3 -1 1 -1 -1 -1\n"


def write(folder: Path, text: str, *, name: str = "log.csv") -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(UserError) as caught:
        read_trace(path)
    assert caught.value.exit_code == 1 and caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_csv_jobs_are_sorted_by_submission_and_blanks_are_unknown(tmp_path: Path, name: str) -> None:
    text = HEADER + "b,ann,lab,20,5,60,2,16,,,COMPLETED,3\n" + "a,-1,,10,7,,,,4,,,\n\n"
    found = read_trace(write(tmp_path, text, name=name))
    assert found.jobs == (
        TraceJob(job_id="a", submit_s=10, run_s=7, cpus=4),
        TraceJob(job_id="b", submit_s=20, run_s=5, limit_s=60, nodes=2, gpus=16, user="ann", account="lab"),
    )
    assert found.skipped == 0


def test_csv_columns_are_found_by_name_and_others_are_ignored(tmp_path: Path) -> None:
    found = read_trace(write(tmp_path, "\ufeffcpus,note,submit_s,runtime_s,job_id\n3,x,1,2,9\n"))
    assert found.jobs == (TraceJob(job_id="9", submit_s=1, run_s=2, cpus=3),)


def test_incomplete_jobs_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = ["1,,,,5,,,,4,,,", "2,,,1,,,,,4,,,", "3,,,1,5,,,,,,,", "4,,,1,5,,,,4,,,"]
    found = read_trace(write(tmp_path, HEADER + "\n".join(rows)))
    assert [job.job_id for job in found.jobs] == ["4"]
    assert found.skipped == 3


def test_swf_is_read_with_the_machine_size_of_its_header(tmp_path: Path) -> None:
    text = (
        "; Version: 2.2\n; MaxProcs: 128\n" + SWF_JOB + "8 50 -1 -1 4 -1 -1 -1 -1 -1 5 -1 -1 -1 1 -1 -1 -1\n"
    )
    found = read_trace(write(tmp_path, text, name="log.swf.gz"))
    assert found.jobs == (
        TraceJob(job_id="7", submit_s=100, run_s=60, limit_s=3600, cpus=8, user="12", account="3"),
    )
    assert (found.machine_cpus, found.skipped) == (128, 1)


def test_swf_uses_the_processors_used_if_none_were_requested(tmp_path: Path) -> None:
    line = SWF_JOB.replace(" 8 3600", " -1 -1")
    (job,) = read_trace(write(tmp_path, line, name="log.swf")).jobs
    assert (job.cpus, job.limit_s) == (4, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,submit_s,cpus\n1,2,3\n", "log.csv:1: missing in the header: column runtime_s"),
        (
            "job_id,submit_s,runtime_s\n1,2,3\n",
            "log.csv:1: missing in the header: column cpus (or nodes and gpus)",
        ),
        (HEADER + "1,,,0,5,,,,4,,,\n2,,,x7,5,,,,4,,,\n", "log.csv:3: submit_s is 'x7', not a number"),
        (HEADER + "1,,,0,-5,,,,4,,,\n", "log.csv:2: runtime_s is '-5': it cannot be negative"),
        (HEADER + "1,,,0,5,,,,2.5,,,\n", "log.csv:2: cpus is '2.5', not a whole number"),
        (HEADER + "1,,,nan,5,,,,4,,,\n", "log.csv:2: submit_s is 'nan', which is out of range"),
        (HEADER + "1,,,1e300,5,,,,4,,,\n", "log.csv:2: submit_s is '1e300', which is out of range"),
        (HEADER + "1,2\n", "log.csv:2: 2 fields, but the header has 12"),
        (HEADER + '"1\n', "log.csv:2: invalid CSV: unexpected end of data"),
        (HEADER + "1" * 70_000 + "\n", "log.csv:2: more than 65,536 bytes in one line"),
        ("", "log.csv is empty"),
        (HEADER, "log.csv contains no jobs that can be replayed"),
    ],
)
def test_an_invalid_csv_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(write(tmp_path, text)) == f"{tmp_path}/{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SWF_JOB + "1 2 3\n", "log.swf:2: 3 fields; a line of the Standard Workload Format has 18"),
        (SWF_JOB.replace("60", "sixty"), "log.swf:1: the run time (field 4) is 'sixty', not a number"),
        (SWF_JOB.replace("60", "nan"), "log.swf:1: the run time (field 4) is 'nan', which is out of range"),
    ],
)
def test_an_invalid_swf_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(write(tmp_path, text, name="log.swf")) == f"{tmp_path}/{message}"


@pytest.mark.parametrize("field", [1, 3, 7])
@pytest.mark.parametrize("value", ["-1", "-7", "-0.5"])
def test_negative_values_in_swf_are_unknown_and_skip_jobs_that_need_them(
    tmp_path: Path, field: int, value: str
) -> None:
    fields = SWF_JOB.split()
    fields[field] = value
    found = read_trace(write(tmp_path, SWF_JOB + " ".join(fields) + "\n", name="log.swf"))
    needed = field != 7  # the processors used replace the requested ones
    assert (len(found.jobs), found.skipped) == ((1, 1) if needed else (2, 0))


def test_swf_may_have_windows_line_ends_blank_lines_and_comments(tmp_path: Path) -> None:
    late = SWF_JOB.replace("7 100", "8 900").strip()
    early = SWF_JOB.replace("7 100", "9 20").strip()
    lines = [
        "; MaxProcs: 64",
        "",
        late,
        "   ",
        f"{early} ; restarted: by hand",
        "\t; MaxRuntime: 9",
        "; ;; :",
    ]
    found = read_trace(write(tmp_path, "\r\n".join(lines), name="log.swf"))
    assert [job.job_id for job in found.jobs] == ["9", "8"], "in the order of their submission"
    assert found.machine_cpus == 64 and not found.skipped


def test_partial_executions_in_swf_are_skipped(tmp_path: Path) -> None:
    parts = [SWF_JOB.replace(" -1 1 12", f" -1 {status} 12") for status in (1, 2, 3, 4, 0, 5)]
    found = read_trace(write(tmp_path, "".join(parts), name="log.swf"))
    assert (len(found.jobs), found.skipped) == (3, 3)


def test_a_log_of_a_hundred_thousand_unordered_jobs_is_sorted(tmp_path: Path) -> None:
    text = "".join(
        SWF_JOB.replace("7 100", f"{number} {number * 7919 % 100_003}") for number in range(100_000)
    )
    path = write(tmp_path, text, name="log.swf.gz")
    found = read_trace(path)
    assert len(found.jobs) == 100_000
    assert all(one.submit_s <= other.submit_s for one, other in pairwise(found.jobs))


def test_invalid_and_truncated_gzip_files_are_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv.gz"
    plain.write_text(HEADER)
    assert "is not a gzip file" in refusal(str(plain))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress((HEADER + "1,,,0,5,,,,4,,,\n" * 1000).encode())[:-20])
    assert "the gzip data is truncated or damaged" in refusal(str(cut))
    early = tmp_path / "early.swf.gz"
    early.write_bytes(gzip.compress(SWF_JOB.encode())[:5])
    assert "early.swf.gz:1: the gzip data is truncated or damaged" in refusal(str(early))


def test_binary_data_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(HEADER.encode() + b"\xff\xfe\x00\n")
    assert refusal(str(binary)).endswith("binary.csv:2: not UTF-8 text")
    assert "No such file" in refusal(str(tmp_path / "absent.csv"))
    (tmp_path / "folder.csv").mkdir()
    assert "Is a directory" in refusal(str(tmp_path / "folder.csv"))
    assert "unknown log format" in refusal(str(tmp_path / "log.json"))


def test_a_log_above_the_job_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_JOBS", 3)
    assert "more than 3 jobs in one log" in refusal(write(tmp_path, HEADER + "1,,,0,5,,,,4,,,\n" * 4))
