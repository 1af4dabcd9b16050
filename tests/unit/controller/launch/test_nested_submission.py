"""The work folder of a job submitted by a job."""

from __future__ import annotations

import pytest

from warpdeck.controller.launch.resubmission import nested_submission
from warpdeck.model import Job, JobId, NodeName, Request, ShareStatus
from warpdeck.model.request import Snapshot

NODE = NodeName("n1")
CODE = Snapshot(commit="c", tree="t", root="/home/ann/code", subdir="train")


def running(snapshot: Snapshot | None, *, work_dir: str) -> Job:
    request = Request(name="job", script="#!/bin/sh\n", submit_dir="/home/ann/code/train", snapshot=snapshot)
    return Job(
        id=JobId(1),
        array_job_id=JobId(1),
        request=request,
        user="ann",
        uid=1000,
        submit_at_unix=0.0,
        eligible_at_unix=0.0,
        shares=(ShareStatus(node=NODE, work_dir=work_dir),),
    )


def nested_request(folder: str, **more: str) -> Request:
    return Request(script="#!/bin/sh\n", submit_dir=folder, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("called_in", "submit_dir", "subdir"),
    [
        ("/agent/work/1/train", "/home/ann/code/train", "train"),
        ("/agent/work/1", "/home/ann/code", ""),
        ("/agent/work/1/eval/deep", "/home/ann/code/eval/deep", "eval/deep"),
    ],
)
def test_a_folder_of_the_checkout_becomes_the_folder_of_the_submit_host(
    called_in: str, submit_dir: str, subdir: str
) -> None:
    job = running(CODE, work_dir="/agent/work/1/train")
    made = nested_submission(nested_request(called_in, output=f"{called_in}/out"), job, NODE)
    assert made.snapshot is not None
    assert (made.submit_dir, made.snapshot.tree, made.snapshot.subdir) == (submit_dir, "t", subdir)
    assert made.output == f"{submit_dir}/out"


def test_a_folder_outside_the_checkout_is_kept_without_a_snapshot() -> None:
    job = running(CODE, work_dir="/agent/work/1/train")
    for folder in ("/data/run", "/agent/work/12"):
        made = nested_submission(nested_request(folder), job, NODE)
        assert (made.submit_dir, made.snapshot) == (folder, None)


def test_a_requested_working_folder_takes_precedence() -> None:
    job = running(CODE, work_dir="/agent/work/1/train")
    made = nested_submission(nested_request("/agent/work/1/train", chdir="/data"), job, NODE)
    assert (made.submit_dir, made.chdir, made.snapshot) == ("/home/ann/code/train", "/data", None)


def test_a_job_without_a_snapshot_uses_the_submit_folder() -> None:
    job = running(None, work_dir="/home/ann/code/train")
    assert (
        nested_submission(nested_request("/home/ann/code/train"), job, NODE).submit_dir
        == "/home/ann/code/train"
    )
    elsewhere = running(None, work_dir="/agent/work/empty-1")  # its folder does not exist on that node
    made = nested_submission(nested_request("/agent/work/empty-1/sub"), elsewhere, NODE)
    assert (made.submit_dir, made.snapshot) == ("/home/ann/code/train/sub", None)
