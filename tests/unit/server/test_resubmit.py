"""Resubmission of a job: the options that apply again, and its owner."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.core import make_request

from warpdeck.base.errors import UserError
from warpdeck.engines.shared.resubmit import asked_again, check_owner, variables_of
from warpdeck.model import ArraySpec, Job, JobId, PtySize
from warpdeck.ports.caller import Principal

ANN, NEW_ANN = Principal(user="ann", uid=1000), Principal(user="ann", uid=1001)
"""Two users of the same name: the account of the first was deleted."""


def make_job() -> Job:
    return Job(
        id=JobId(7),
        array_job_id=JobId(7),
        user="ann",
        uid=1000,
        request=make_request("train", script="#!/bin/sh\n"),
    )


def test_a_resubmitted_request_loses_its_times_and_keeps_the_rest() -> None:
    job = make_job()
    request = msgspec.structs.replace(
        job.request, begin_at_unix=5.0, deadline_unix=9.0, hold=True, env={"A": "1"}
    )
    again = asked_again(msgspec.structs.replace(job, request=request), who=ANN, task=None)
    assert (again.begin_at_unix, again.deadline_unix, again.hold, again.dependencies) == (
        None,
        None,
        False,
        None,
    )
    assert msgspec.structs.replace(again, begin_at_unix=5.0, deadline_unix=9.0, hold=True) == request


def test_only_the_owner_sees_a_jobs_environment() -> None:
    job = make_job()
    mine = msgspec.structs.replace(job, request=msgspec.structs.replace(job.request, env={"A": "1"}))
    assert variables_of(mine).variables == {"A": "1"}
    for other in (Principal(user="root", uid=0, admin=True), NEW_ANN):
        with pytest.raises(UserError, match="only the owner can see its environment"):
            check_owner(mine, who=other)


def test_an_array_task_is_resubmitted_alone() -> None:
    job = make_job()
    request = msgspec.structs.replace(job.request, array=ArraySpec(ranges=((0, 9, 1),), throttle=2))
    task = msgspec.structs.replace(job, request=request)
    assert asked_again(task, who=ANN, task=3).array == ArraySpec(ranges=((3, 3, 1),))
    assert asked_again(task, who=ANN, task=None).array == request.array


def test_only_the_owner_resubmits_a_job_and_nobody_a_session() -> None:
    job = make_job()
    for other in (Principal(user="eve", uid=1001), NEW_ANN):
        with pytest.raises(UserError, match="only the owner can submit it again"):
            asked_again(job, who=other, task=None)
    shell = msgspec.structs.replace(job.request, pty=PtySize())
    with pytest.raises(UserError, match="is an interactive session"):
        asked_again(msgspec.structs.replace(job, request=shell), who=ANN, task=None)
