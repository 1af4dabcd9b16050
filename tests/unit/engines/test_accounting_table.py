"""Records of sacct as jobs with their usage."""

from __future__ import annotations

import base64
import gzip
import json

import msgspec
import pytest

from warpdeck.engines.slurm.cluster.polling import Asked
from warpdeck.engines.slurm.history.accounting import due_in_s
from warpdeck.engines.slurm.reading import jobstats, values
from warpdeck.engines.slurm.reading.accounting_table import COLUMNS, read_ended, with_usage
from warpdeck.model import Allocation, JobState

MIB = 1024 * 1024
EMPTY = {column.name: "" for column in COLUMNS}
TIMES = {"submit": "2026-11-27T10:00:00", "start": "2026-11-27T10:01:00", "end": "2026-11-27T10:03:00"}
JOB = EMPTY | TIMES | {
    "id": "5",
    "label": "2_1",
    "name": "two\nlines",
    "user": "ann",
    "uid": "7",
    "state": "FAILED",
    "exit": "3:0",
    "nodes": "2",
    "node_list": "n[1-2]",
    "cpus": "4",
    "tres": "billing=4,cpu=4,gres/gpu=2,mem=200M,node=2",
    "cpu_time": "01:02.500",
    "system_time": "00:02.500",
}  # fmt: skip
BATCH = EMPTY | TIMES | {"id": "5.batch", "label": "2_1.batch", "state": "FAILED", "peak": "10716K"}
STEP = EMPTY | TIMES | {
    "id": "5.0",
    "label": "2_1.0",
    "name": "train",
    "state": "COMPLETED",
    "exit": "0:0",
    "node_list": "n[1-2]",
    "cpus": "4",
    "tasks": "4",
    "tres": "cpu=4,gres/gpu=2,mem=200M",
    "peak": "200M",
    "cpu_time": "00:50.000",
    "usage": "cpu=00:00:50,gres/gpumem=1024M,gres/gpuutil=40,mem=100M",
    "peak_usage": "gres/gpumem=2048M,mem=200M",
}  # fmt: skip


def test_a_job_has_the_usage_of_its_steps() -> None:
    ((job, steps),) = read_ended([JOB, BATCH, STEP])
    assert (job.label(), job.request.name, job.state, str(job.exit)) == (
        "2_1",
        "two\nlines",
        JobState.FAILED,
        "3:0",
    )
    first, second = job.shares
    assert (first.cpu_seconds, first.system_s, first.peak_mem_bytes) == (62.5, 2.5, 200 * MIB)
    assert second.cpu_seconds == 0.0
    assert first.gpu is not None and first.gpu.util_pct == pytest.approx(40)
    assert (first.gpu.seconds, first.gpu.mem_peak_bytes) == (240.0, 2048 * MIB)
    (step,) = steps
    assert (step.number, step.name, step.task_count(), step.node_names()) == (0, "train", 4, ("n1", "n2"))


def test_a_job_without_steps_has_no_gpu_usage_and_one_without_nodes_no_usage() -> None:
    ((job, steps),) = read_ended([JOB])
    assert steps == [] and job.shares[0].gpu is None
    waited = JOB | {"node_list": "None assigned", "state": "CANCELLED by 7", "start": "Unknown", "cpus": "0"}
    ((job, _),) = read_ended([waited | {"requested_cpus": "3"}])
    assert (job.state, job.shares, job.allocation) == (JobState.CANCELLED, (), None)


def test_usage_is_added_to_a_job_that_the_queue_has_shown() -> None:
    ((job, _),) = read_ended([JOB, BATCH, STEP])
    seen = read_ended([JOB])[0].job
    assert with_usage(seen, job).shares == job.shares


def test_the_accounting_does_not_remove_the_numbers_of_gpus_that_the_queue_has_shown() -> None:
    ((told, _),) = read_ended([JOB])
    assert told.allocation is not None
    named = tuple(msgspec.structs.replace(share, gpus=(3,)) for share in told.allocation.shares)
    seen = msgspec.structs.replace(told, allocation=Allocation(shares=named), shares=())
    assert with_usage(seen, told).allocation == seen.allocation
    elsewhere = msgspec.structs.replace(seen, allocation=Allocation(shares=named[:1]))
    assert with_usage(elsewhere, told).allocation == told.allocation


def test_steps_without_their_job_are_left_out() -> None:
    assert read_ended([STEP]) == []


def packed(found: object) -> str:
    """Return the comment with these measurements, always the same one."""
    return jobstats.PREFIX + base64.b64encode(gzip.compress(json.dumps(found).encode(), mtime=0)).decode()


def test_the_comment_of_jobstats_tells_the_usage_of_gpus() -> None:
    nodes = {"n1": {"gpu_utilization": {"0": 90.5, "1": 1}, "gpu_used_memory": {"0": 5, "1": 6}, "cpus": 4}}
    usage = jobstats.gpu_usage(packed({"nodes": nodes, "total_time": 100, "gpus": 2}))
    assert usage is not None and (usage.seconds, usage.idle_s, usage.mem_peak_bytes) == (200, 100, 11)
    assert usage.util_pct == pytest.approx(45.75)
    ((job, _),) = read_ended([JOB | {"admin_comment": packed({"nodes": nodes, "total_time": 100})}, STEP])
    assert job.shares[0].gpu == usage, "measurements over the whole run time are better than means of steps"


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "a remark",
        "JS1:",
        "JS1:!!!",
        "JS1:" + base64.b64encode(b"no gzip").decode(),
        packed([]),
        packed({"nodes": 5}),
        packed({"nodes": {"n1": {"cpus": 4}}}),
        packed({"nodes": {}, "x": "y" * (jobstats.MAX_JSON_BYTES + 1)}),
    ],
)
def test_a_comment_without_measurements_counts_as_none(comment: str) -> None:
    assert jobstats.gpu_usage(comment) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00.014", 0.014),
        ("01:02.500", 62.5),
        ("10:00:00", 36_000),
        ("1-02:03:04", 93_784),
        ("", 0),
        ("x", 0),
    ],
)
def test_cpu_times_are_in_seconds(text: str, expected: float) -> None:
    assert values.cpu_seconds(text) == pytest.approx(expected)


def test_sacct_is_started_when_a_job_has_ended_and_not_too_often() -> None:
    last = Asked(started=100.0, took_s=0.1)
    assert due_in_s(None, open_jobs=0, interval_s=60, now=0) is None
    assert due_in_s(None, open_jobs=1, interval_s=60, now=0) == 0
    assert due_in_s(last, open_jobs=1, interval_s=60, now=130) == 30
    assert due_in_s(Asked(started=100.0, took_s=10.0), open_jobs=1, interval_s=60, now=130) == 470


@pytest.mark.parametrize(
    ("state", "uid"), [("CANCELLED by 1000", 1000), ("CANCELLED", None), ("FAILED by night", None)]
)
def test_the_user_who_canceled_a_job_is_told_where_the_queue_did_not(state: str, uid: int | None) -> None:
    ((job, _),) = read_ended([JOB | {"state": state, "exit": "0:0"}])
    assert job.ended_by_uid == uid
    shown = msgspec.structs.replace(job, ended_by_uid=None)
    assert with_usage(shown, job).ended_by_uid == uid
