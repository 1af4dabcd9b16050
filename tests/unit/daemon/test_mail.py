"""The mails that a job's changes cause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes

import msgspec
import pytest
from tests.support.core import Core, make_request

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


def test_mails_are_sent_only_for_requested_events() -> None:
    assert events(PENDING, job(JobState.RUNNING, "BEGIN")) == ["BEGIN"]
    assert events(PENDING, job(JobState.RUNNING, "END")) == []
    assert events(RUNNING, job(JobState.RUNNING, "BEGIN")) == []


def test_a_job_first_seen_after_its_end_gets_mails_for_begin_and_end() -> None:
    ended = job(JobState.COMPLETED, "BEGIN", "END", exit=ExitStatus(code=0))
    assert events(PENDING, ended) == ["BEGIN", "END"]
    began, over = mails(PENDING, ended, [], now=110.0)
    assert "COMPLETED" not in began.subject and over.subject.endswith(", COMPLETED, ExitCode 0")


def test_a_long_subject_is_one_line() -> None:
    named = Request(name="n" * 100, script="#!/bin/sh\n", mail_types=("END",))
    (mail,) = mails(RUNNING, job(JobState.COMPLETED, request=named), [], now=110.0)
    lines = message(mail, ["ann@example.org"]).decode().splitlines()
    assert f"Subject: {mail.subject}" in lines


@pytest.mark.parametrize(
    "line_break", ["\n", "\r", "\r\n", "\n\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_a_job_name_with_line_breaks_adds_no_header(line_break: str) -> None:
    name = f"n{line_break}Bcc: all@example.org{line_break}Content-Type: text/html{line_break * 2}<b>"
    named = Request(name=name, script="#!/bin/sh\n", mail_types=("END",))
    (mail,) = mails(RUNNING, job(JobState.COMPLETED, request=named), [], now=110.0)
    data = message(mail, ["ann@example.org"])
    plain = message(msgspec.structs.replace(mail, subject="plain"), ["ann@example.org"])
    found, expected = message_from_bytes(data), message_from_bytes(plain)
    assert sorted(found.keys()) == sorted(expected.keys())
    assert found.get_content_type() == "text/plain" and found["To"] == "ann@example.org"
    head = re.split(rb"\r\n\r\n|\n\n|\r\r", data)[0]
    assert not re.search(rb"(?im)^bcc", head.replace(b"\r", b"\n"))


def test_a_failure_counts_as_an_end_if_only_end_is_requested() -> None:
    failed = ExitStatus(code=1)
    assert events(RUNNING, job(JobState.FAILED, "END", "FAIL", exit=failed)) == ["FAIL"]
    assert events(RUNNING, job(JobState.FAILED, "END", exit=failed)) == ["END"]
    assert events(RUNNING, job(JobState.COMPLETED, "FAIL")) == []
    assert events(RUNNING, job(JobState.TIMEOUT, "TIME_LIMIT", "END")) == ["TIME_LIMIT", "END"]
    assert events(RUNNING, job(JobState.TIMEOUT, "TIME_LIMIT", "FAIL", "END")) == ["TIME_LIMIT", "FAIL"]


def test_each_fraction_of_the_time_limit_is_mailed_once() -> None:
    now = job(JobState.RUNNING, "TIME_LIMIT_50", "TIME_LIMIT_80")
    assert events(RUNNING, now, at=149.0) == []
    found = mails(RUNNING, now, [], now=151.0)
    assert [mail.event for mail in found] == ["TIME_LIMIT_50"]
    again = MailedEvents(JobState.RUNNING, 0, reported=reported_once(RUNNING, found))
    assert events(again, now, at=160.0) == []
    assert events(again, now, at=181.0) == ["TIME_LIMIT_80"]


def test_requeues_and_impossible_dependencies_are_mailed() -> None:
    assert events(RUNNING, job(JobState.PENDING, "REQUEUE", restarts=1)) == ["REQUEUE"]
    never = job(JobState.CANCELLED, "INVALID_DEPEND", start_at_unix=None, ending_cause="dependency")
    assert events(PENDING, never) == ["INVALID_DEPEND"]


def test_an_array_is_mailed_as_a_whole_unless_array_tasks_is_requested() -> None:
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


def test_tasks_that_change_together_cause_one_begin_and_one_end_mail() -> None:
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
def test_subjects_equal_slurms(before: MailedEvents, now: Job, words: list[str]) -> None:
    assert subjects(before, now) == [f"Job_id=7 Name=n {each}" for each in words]


def test_a_run_time_above_a_day_shows_days() -> None:
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
def test_an_array_summary_shows_the_range_of_exit_codes(exits: list[str], words: str) -> None:
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


def test_a_mail_about_a_task_shows_its_own_job_id_too() -> None:
    array = ArraySpec(ranges=((0, 1, 1),))
    request = Request(name="n", script="#!/bin/sh\n", mail_types=("BEGIN", "ARRAY_TASKS"), array=array)
    task = job(JobState.RUNNING, request=request, array_task_id=1, id=JobId(9), submit_at_unix=99.0)
    assert subjects(PENDING, task) == ["Array Task Job_id=7_1 (9) Name=n Began, Queued time 00:00:01"]


def test_an_impossible_dependency_of_a_waiting_job_is_mailed_once() -> None:
    waits = job(JobState.PENDING, "INVALID_DEPEND")
    never = mails(PENDING, waits, [], now=110.0, reason_code="DependencyNeverSatisfied")
    assert [mail.subject for mail in never] == ["Slurm Job_id=7 Name=n Invalid dependency"]
    again = mail_state(waits, reported_once(PENDING, never))
    assert subjects(again, waits, why="DependencyNeverSatisfied") == []
    assert subjects(PENDING, waits, why="Dependency") == []


def test_the_end_of_a_task_examines_as_few_other_tasks_as_possible() -> None:
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


def test_member_ids_start_with_the_record_of_waiting_tasks() -> None:
    core = Core("a")
    array = core.submit(make_request(array=ArraySpec(ranges=((0, 99, 1),))))
    core.plan()
    first, *others = core.state.member_ids(array)
    assert core.job(first).state is JobState.PENDING and len(others) == 16
    assert not core.state.member_ids(core.submit())


@pytest.mark.parametrize(
    "text", ["-bs", "a b@c", "a@b;c", "$USER@x", "", "a@b\nBcc: c@d", ",".join(["a@b"] * 11)]
)
def test_invalid_mail_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no mail address"):
        addresses(text)


def test_several_mail_addresses_are_accepted() -> None:
    assert addresses("ann@example.org, bob") == ["ann@example.org", "bob"]
