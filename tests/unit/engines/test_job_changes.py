"""The comparison of a queue of Slurm with the jobs in memory."""

from __future__ import annotations

import msgspec

from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.cluster.job_changes import (
    FORGOTTEN,
    JobChanges,
    compare,
    complete_lists,
    find_vanished,
    forgotten,
)
from warpdeck.engines.slurm.reading.job_table import COLUMNS, WIDE_LIST_BYTES, SeenJob, read_job
from warpdeck.model import JobId, JobState, Request
from warpdeck.model.ranges import count_tasks, has_task, iter_tasks

EMPTY = {column.name: "" for column in COLUMNS}


WIDTH = next(column.width_bytes for column in COLUMNS if column.name == "array_tasks")
TASKS = tuple(1000 + 7 * number**2 for number in range(60))
"""Numbers that form no ranges."""


def printed(number: int, state: str = "PENDING", **fields: str) -> dict[str, str]:
    """Return the fields of a job as squeue prints them."""
    made = {
        "id": str(number),
        "label": str(number),
        "user": "ann",
        "uid": "7",
        "submit": "2026-11-27T10:00:00",
    }
    return {**EMPTY, **made, "state": state, "reason": "Priority", **fields}


def record(number: int, state: str = "PENDING", **fields: str) -> SeenJob:
    return read_job(printed(number, state, **fields))


def applied(state: State, *seen: SeenJob, now: float = 0.0) -> JobChanges:
    """Put a complete queue into the state, and return its changes."""
    changes = JobChanges()
    compare(state, seen, changes, now=now)
    complete_lists(state, changes)
    find_vanished(state, {each.job.id for each in seen}, changes, unseen=2e10)
    for job_id in changes.gone:
        state.evict_job(job_id)
    for job in changes.jobs:
        state.upsert_job(job)
    state.planned.pending_reasons.update(changes.reasons)
    state.planned.priorities.update(changes.priorities)
    return changes


def running(number: int, **fields: str) -> SeenJob:
    return record(number, "RUNNING", start="2026-11-27T10:01:00", node_list="n[1-2]", cpus="5", **fields)


def test_an_equal_queue_changes_nothing() -> None:
    state = State()
    assert len(applied(state, record(1), running(2)).jobs) == 2
    again = applied(state, record(1), running(2))
    assert (again.jobs, again.reasons, again.journal, again.vanished) == ([], {}, [], [])


def test_each_change_of_state_is_a_line_of_history() -> None:
    state, lines = State(), []
    for seen in (
        record(1),
        record(1, reason="JobHeldUser"),
        record(1),
        running(1),
        record(1, "COMPLETED", start="2026-11-27T10:01:00", end="2026-11-27T10:02:00", exit="0"),
    ):
        lines += [line.text for line in applied(state, seen).journal]
    assert lines == ["submitted", "held", "released", "started on n1, n2", "ended: exit 0"]


def test_a_canceled_job_has_no_exit_code_in_its_history() -> None:
    state = State()
    applied(state, record(1))
    (line,) = applied(state, record(1, "CANCELLED", end="2026-11-27T10:02:00", exit="0")).journal
    assert line.text == "ended: canceled"


def test_a_new_reason_alone_is_told() -> None:
    state = State()
    applied(state, record(1))
    changes = applied(state, record(1, reason="Resources"))
    assert [job.id for job in changes.jobs] == [1] and changes.reasons[JobId(1)].code == "Resources"
    assert changes.journal == []


def test_the_totals_of_an_allocation_are_distributed_over_its_nodes() -> None:
    job = running(1, tres="cpu=5,mem=3G,gres/gpu=3", nodes="2").job
    assert job.allocation is not None
    assert [(share.node, share.cpus, len(share.gpus)) for share in job.allocation.shares] == [
        ("n1", 3, 2),
        ("n2", 2, 1),
    ]


def test_a_job_that_the_queue_lost_has_vanished_and_a_new_one_has_not() -> None:
    state, changes = State(), JobChanges()
    applied(state, running(1), running(2))
    find_vanished(state, {JobId(2)}, changes, unseen=state.jobs[JobId(1)].submit_at_unix)
    assert changes.vanished == []
    find_vanished(state, {JobId(2)}, changes, unseen=2e10)
    assert changes.vanished == [1]
    ended = forgotten(state.jobs[JobId(1)], now=5.0)
    assert (ended.state, ended.end_at_unix) == (JobState.FAILED, 5.0)
    assert ended.exit is not None and ended.exit.message == FORGOTTEN and ended.exit.cause == "unknown"
    assert forgotten(record(3).job, now=5.0).state is JobState.CANCELLED


def test_the_waiting_tasks_of_an_array_are_gone_when_the_last_one_has_its_own_record() -> None:
    state = State()
    waiting = {"array_job_id": "5", "array_tasks": "1-2", "label": "5_[1-2]"}
    applied(state, record(5, **waiting))
    assert state.jobs[JobId(5)].label() == "5_[1-2]"
    last = running(5, array_job_id="5", array_tasks="2", label="5_2")
    first = running(6, array_job_id="5", array_tasks="1", label="5_1")
    changes = applied(state, first, last)
    assert changes.vanished == [] and [job.label() for job in changes.jobs] == ["5_1", "5_2"]


def test_a_job_submitted_through_warpdeck_keeps_its_script_and_takes_changed_options() -> None:
    state = State()
    ours = msgspec.structs.replace(
        record(1).job, request=Request(script="#!/bin/sh\n", env={"A": "1"}, name="old")
    )
    state.upsert_job(ours)
    applied(state, record(1, name="new", time_limit="10:00"))
    request = state.jobs[JobId(1)].request
    assert (request.script, request.env, request.name, request.time_limit_s) == (
        "#!/bin/sh\n",
        {"A": "1"},
        "new",
        600,
    )
    task = running(9, array_job_id="1", array_tasks="3", label="1_3")
    applied(state, record(1), task)
    assert state.jobs[JobId(9)].request.script == "#!/bin/sh\n"


def test_another_user_with_the_same_job_id_gets_no_script() -> None:
    """slurmctld that was set up anew counts its ids from 1 again."""
    state = State()
    ours = msgspec.structs.replace(record(1).job, request=Request(script="#!/bin/sh\n"))
    state.upsert_job(ours)
    applied(state, record(1, uid="8", user="bob"))
    assert state.jobs[JobId(1)].request.script == "" and state.jobs[JobId(1)].user == "bob"


def test_an_ended_job_keeps_the_usage_that_the_accounting_told() -> None:
    state = State()
    end = {"start": "2026-11-27T10:01:00", "end": "2026-11-27T10:02:00", "node_list": "n1", "exit": "0"}
    applied(state, record(1, "COMPLETED", **end))
    known = state.jobs[JobId(1)]
    with_use = msgspec.structs.replace(known, shares=running(1).job.shares)
    state.upsert_job(with_use)
    assert applied(state, record(1, "COMPLETED", **end)).jobs == []
    assert state.jobs[JobId(1)].shares == with_use.shares


def test_states_of_slurm_that_we_do_not_have_become_the_nearest_one() -> None:
    assert record(1, "REQUEUE_HOLD").job.state is JobState.PENDING
    assert record(1, "SIGNALING").job.state is JobState.COMPLETING
    assert record(1, "SOMETHING_NEW").job.state is JobState.PENDING


def array(tasks: tuple[int, ...], *, width: int = WIDTH) -> SeenJob:
    """Return the record of the waiting tasks of array 5, as squeue prints it with a column of this width."""
    text = ",".join(map(str, tasks))[:width]
    return read_job(printed(5, array_job_id="5", array_tasks=text), list_bytes=width)


def task_of_array(task: int, number: int) -> SeenJob:
    return running(number, array_job_id="5", array_tasks=str(task))


def waiting(state: State) -> tuple[int, ...]:
    return tuple(iter_tasks(state.jobs[JobId(5)].pending_tasks))


def test_a_list_of_tasks_that_was_cut_has_no_task_that_does_not_exist() -> None:
    for width in range(20, WIDTH + 1):
        seen = array(TASKS, width=width)
        assert set(iter_tasks(seen.job.pending_tasks)) <= set(TASKS)
        assert seen.cut_after == seen.job.pending_tasks[-1][1]


def test_a_list_that_was_cut_keeps_the_tasks_that_are_known_to_wait() -> None:
    state = State()
    applied(state, array(TASKS, width=WIDE_LIST_BYTES))
    assert waiting(state) == TASKS
    again = applied(state, array(TASKS))
    assert (waiting(state), again.journal) == (TASKS, [])
    applied(state, array(TASKS[1:]), task_of_array(TASKS[0], 5001))
    assert waiting(state) == TASKS[1:]
    # The record of the waiting tasks looks as before, and comes before that of the task.
    applied(state, array(TASKS[1:]), task_of_array(TASKS[0], 5001), task_of_array(TASKS[50], 5002))
    assert waiting(state) == tuple(task for task in TASKS[1:] if task != TASKS[50])


def test_a_list_that_was_cut_is_at_least_what_was_told_if_nothing_is_known() -> None:
    state = State()
    applied(state, array(TASKS))
    found = state.jobs[JobId(5)].pending_tasks
    assert 10 < count_tasks(found) < len(TASKS) and has_task(found, TASKS[0])


def test_a_long_range_behind_the_cut_is_not_counted_one_by_one() -> None:
    state, last = State(), 4_000_000_000
    head = ",".join(map(str, TASKS[:30]))
    whole = f"{head},10000-{last}"
    applied(state, read_job(printed(5, array_job_id="5", array_tasks=whole), list_bytes=WIDE_LIST_BYTES))
    applied(state, record(5, array_job_id="5", array_tasks=whole[:WIDTH]), task_of_array(10_001, 5001))
    pending = state.jobs[JobId(5)].pending_tasks
    assert pending[-2:] == ((10_000, 10_000, 1), (10_002, last, 1))
