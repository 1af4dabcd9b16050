"""The mails that a job's changes cause."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from tests.support.core import Core, ask

from warpdeck.daemon.mail import MailedEvents, mail_state, mails, reported_once
from warpdeck.daemon.mailer import addresses, message
from warpdeck.model import ArraySpec, ExitStatus, Job, JobId, JobState, Request

PENDING, RUNNING = MailedEvents(JobState.PENDING, 0), MailedEvents(JobState.RUNNING, 0)


def job(state: JobState, *types: str, **more: object) -> Job:
    started = None if state is JobState.PENDING else 100.0
    made = Job(
        id=JobId(7),
        array_job_id=JobId(7),
        request=Request(name="n", script="#!/bin/sh\n", mail_types=types),
        user="ann",
        uid=1000,
        state=state,
        start_at_unix=started,
        time_limit_s=100,
    )
    return msgspec.structs.replace(made, **more)


def events(before: MailedEvents, now: Job, *others: MailedEvents, at: float = 110.0) -> list[str]:
    return [mail.event for mail in mails(before, now, others, now=at)]


def test_only_what_was_asked_for_is_told() -> None:
    assert events(PENDING, job(JobState.RUNNING, "BEGIN")) == ["BEGIN"]
    assert events(PENDING, job(JobState.RUNNING, "END")) == []
    assert events(RUNNING, job(JobState.RUNNING, "BEGIN")) == []


def test_a_job_that_was_never_seen_to_run_began_and_ended() -> None:
    ended = job(JobState.COMPLETED, "BEGIN", "END", exit=ExitStatus(code=0))
    assert events(PENDING, ended) == ["BEGIN", "END"]
    began, over = mails(PENDING, ended, [], now=110.0)
    assert "COMPLETED" not in began.subject and over.subject.endswith(", COMPLETED, ExitCode 0")


def test_a_subject_is_one_line_however_long() -> None:
    named = Request(name="n" * 100, script="#!/bin/sh\n", mail_types=("END",))
    (mail,) = mails(RUNNING, job(JobState.COMPLETED, request=named), [], now=110.0)
    lines = message(mail, ["ann@example.org"]).decode().splitlines()
    assert f"Subject: {mail.subject}" in lines


def test_a_failure_is_an_end_to_who_asked_for_ends_only() -> None:
    failed = ExitStatus(code=1)
    assert events(RUNNING, job(JobState.FAILED, "END", "FAIL", exit=failed)) == ["FAIL"]
    assert events(RUNNING, job(JobState.FAILED, "END", exit=failed)) == ["END"]
    assert events(RUNNING, job(JobState.COMPLETED, "FAIL")) == []
    assert events(RUNNING, job(JobState.TIMEOUT, "TIME_LIMIT", "END")) == ["TIME_LIMIT", "END"]
    assert events(RUNNING, job(JobState.TIMEOUT, "TIME_LIMIT", "FAIL", "END")) == ["TIME_LIMIT", "FAIL"]


def test_each_share_of_the_limit_is_told_once() -> None:
    now = job(JobState.RUNNING, "TIME_LIMIT_50", "TIME_LIMIT_80")
    assert events(RUNNING, now, at=149.0) == []
    found = mails(RUNNING, now, [], now=151.0)
    assert [mail.event for mail in found] == ["TIME_LIMIT_50"]
    again = MailedEvents(JobState.RUNNING, 0, reported=reported_once(RUNNING, found))
    assert events(again, now, at=160.0) == []
    assert events(again, now, at=181.0) == ["TIME_LIMIT_80"]


def test_a_requeue_and_a_dependency_that_can_never_hold_are_told() -> None:
    assert events(RUNNING, job(JobState.PENDING, "REQUEUE", restarts=1)) == ["REQUEUE"]
    never = job(JobState.CANCELLED, "INVALID_DEPEND", start_at_unix=None, ending_cause="dependency")
    assert events(PENDING, never) == ["INVALID_DEPEND"]


def test_an_array_is_told_of_as_a_whole_unless_its_tasks_are_asked_for() -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    request = Request(name="n", script="#!/bin/sh\n", mail_types=("BEGIN", "END"), array=array)
    first = job(JobState.COMPLETED, request=request, array_task_id=0)
    second = job(JobState.RUNNING, request=request, array_task_id=1, id=JobId(8))
    assert events(RUNNING, first, mail_state(second)) == []
    assert events(PENDING, second, mail_state(first)) == []
    ended = msgspec.structs.replace(second, state=JobState.COMPLETED)
    assert events(RUNNING, ended, mail_state(first)) == ["END"]
    each = msgspec.structs.replace(request, mail_types=("END", "ARRAY_TASKS"))
    alone = msgspec.structs.replace(first, request=each)
    assert events(RUNNING, alone, mail_state(second)) == ["END"]


def test_of_tasks_that_change_at_once_one_is_the_first_and_one_the_last() -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    request = Request(name="n", script="#!/bin/sh\n", mail_types=("BEGIN", "FAIL"), array=array)
    good = job(JobState.COMPLETED, request=request, array_task_id=0)
    bad = job(JobState.FAILED, request=request, array_task_id=1, id=JobId(8))
    assert events(PENDING, bad, PENDING) == ["BEGIN"]
    assert events(PENDING, good, mail_state(bad)) == ["FAIL"]


def subjects(
    before: MailedEvents, now: Job, *others: MailedEvents, at: float = 190.0, why: str = ""
) -> list[str]:
    return [
        mail.subject.removeprefix("Slurm ") for mail in mails(before, now, others, now=at, reason_code=why)
    ]


STARTED = MailedEvents(JobState.RUNNING, 0, start_unix=100.0)
TIMEOUT = ExitStatus(signal=15, cause="timeout")


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (PENDING, job(JobState.RUNNING, "BEGIN", submit_at_unix=40.0), ["Began, Queued time 00:01:00"]),
        (STARTED, job(JobState.COMPLETED, "END", exit=ExitStatus()), ["Ended, Run time 00:01:30, COMPLETED, ExitCode 0"]),
        (STARTED, job(JobState.FAILED, "FAIL", exit=ExitStatus(code=3)), ["Failed, Run time 00:01:30, FAILED, ExitCode 3"]),
        (STARTED, job(JobState.FAILED, "ALL", "FAIL", exit=ExitStatus(signal=9)), ["Failed, Run time 00:01:30, FAILED"]),
        (STARTED, job(JobState.TIMEOUT, "END", exit=TIMEOUT), ["Ended, Run time 00:01:30, TIMEOUT, ExitCode 0"]),
        (STARTED, job(JobState.TIMEOUT, "TIME_LIMIT", exit=TIMEOUT), ["Reached time limit, Run time 00:01:30"]),
        (STARTED, job(JobState.RUNNING, "TIME_LIMIT_80"), ["Reached 80% of time limit, Run time 00:01:30"]),
        (STARTED, job(JobState.PENDING, "REQUEUE", restarts=1), ["Requeued, Run time 00:01:30"]),
        (STARTED, job(JobState.COMPLETED, "END", suspended_s=60.0), ["Ended, Run time 00:00:30, COMPLETED, ExitCode 0"]),
        (PENDING, job(JobState.CANCELLED, "END", start_at_unix=None), ["Ended, Run time 00:00:00, CANCELLED, ExitCode 0"]),
        (
            PENDING,
            job(JobState.CANCELLED, "INVALID_DEPEND", "END", start_at_unix=None, ending_cause="dependency"),
            ["Invalid dependency", "Ended, Run time 00:00:00, CANCELLED, ExitCode 0"],
        ),
    ],
)  # fmt: skip
def test_subjects_are_slurms(before: MailedEvents, now: Job, words: list[str]) -> None:
    assert subjects(before, now) == [f"Job_id=7 Name=n {each}" for each in words]


def test_days_stand_before_the_clock() -> None:
    ended = job(JobState.COMPLETED, "END", end_at_unix=100.0 + 90_061)
    assert "Run time 1-01:01:01," in subjects(STARTED, ended)[0]


@pytest.mark.parametrize(
    ("exits", "words"),
    [
        (["0:0", "0:0"], "Ended, COMPLETED, ExitCode [0-0]"),
        (["0:0", "2:0"], "Failed, Mixed, ExitCode [0-2]"),
        (["3:0", "3:0"], "Failed, FAILED, ExitCode [3-3]"),
        (["0:9", "0:9"], "Failed, Mixed, MaxSignal [9]"),
        (["0:9", "1:0"], "Failed, Mixed, MaxExitCode [1]"),
    ],
)
def test_an_array_is_told_of_by_the_least_and_the_most_of_its_tasks(exits: list[str], words: str) -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    request = Request(name="n", script="#!/bin/sh\n", mail_types=("BEGIN", "END", "FAIL"), array=array)
    found = [ExitStatus(code=int(text[0]), signal=int(text[2])) for text in exits]
    states = [JobState.FAILED if each.code or each.signal else JobState.COMPLETED for each in found]
    tasks = [
        job(state, request=request, array_task_id=0, exit=each)
        for state, each in zip(states, found, strict=True)
    ]
    assert subjects(STARTED, tasks[1], mail_state(tasks[0])) == [
        f"Array Summary Job_id=7_* (7) Name=n {words}"
    ]
    running = job(JobState.RUNNING, request=request, array_task_id=0)
    assert subjects(PENDING, running, PENDING) == ["Array Summary Job_id=7_* (7) Name=n Began"]
    again = msgspec.structs.replace(tasks[1], restarts=1)
    assert subjects(MailedEvents(JobState.RUNNING, 1, start_unix=1.0), again, mail_state(tasks[0]))[
        0
    ].endswith(", with requeued tasks")


def test_a_task_that_is_told_of_by_itself_has_its_own_number_too() -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    request = Request(name="n", script="#!/bin/sh\n", mail_types=("BEGIN", "ARRAY_TASKS"), array=array)
    task = job(JobState.RUNNING, request=request, array_task_id=1, id=JobId(9), submit_at_unix=99.0)
    assert subjects(PENDING, task) == ["Array Task Job_id=7_1 (9) Name=n Began, Queued time 00:00:01"]


def test_a_dependency_that_cannot_hold_is_told_once_of_a_job_that_stays() -> None:
    waits = job(JobState.PENDING, "INVALID_DEPEND")
    never = mails(PENDING, waits, [], now=110.0, reason_code="DependencyNeverSatisfied")
    assert [mail.subject for mail in never] == ["Slurm Job_id=7 Name=n Invalid dependency"]
    again = mail_state(waits, reported_once(PENDING, never))
    assert subjects(again, waits, why="DependencyNeverSatisfied") == []
    assert subjects(PENDING, waits, why="Dependency") == []


def test_an_end_looks_at_no_more_of_its_array_than_it_takes() -> None:
    array = ArraySpec(ranges=((0, 99, 1),))
    looked: list[MailedEvents] = []

    class Counted(list[MailedEvents]):
        def __iter__(self) -> Iterator[MailedEvents]:
            for each in super().__iter__():
                looked.append(each)
                yield each

    others = Counted([PENDING, *[RUNNING] * 98])
    for types, most in ((("END",), 1), (("END", "ARRAY_TASKS"), 0)):
        request = Request(name="n", script="#!/bin/sh\n", mail_types=types, array=array)
        mails(RUNNING, job(JobState.COMPLETED, request=request, array_task_id=0), others, now=110.0)
        assert len(looked) <= most, types
        looked.clear()


def test_what_waits_of_an_array_is_the_first_of_its_tasks() -> None:
    core = Core("a")
    array = core.submit(ask(array=ArraySpec(ranges=((0, 99, 1),))))
    core.plan()
    first, *others = core.state.member_ids(array)
    assert core.job(first).state is JobState.PENDING and len(others) == 16
    assert not core.state.member_ids(core.submit())


@pytest.mark.parametrize(
    "text", ["-bs", "a b@c", "a@b;c", "$USER@x", "", "a@b\nBcc: c@d", ",".join(["a@b"] * 11)]
)
def test_what_is_no_address_gets_no_mail(text: str) -> None:
    with pytest.raises(ValueError, match="no mail address"):
        addresses(text)


def test_several_addresses_may_be_given() -> None:
    assert addresses("ann@example.org, bob") == ["ann@example.org", "bob"]
