"""The pure view-models of the screens: rows and sentences computed from the controller's rows."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from warpdeck.model import JobState
from warpdeck.notation.filters.job_filter import holds as holds_of
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.protocol.job_rows import JobDetail, JobRow, WhyRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.table.palette import ansi_styles
from warpdeck_tui.user_files.themes import STATE_ROLES
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.cells import age, fact, folded, glyph
from warpdeck_tui.viewmodels.job_page.details import groups
from warpdeck_tui.viewmodels.jobs import job as job_view
from warpdeck_tui.viewmodels.jobs.confirmation import confirmation
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, job_row
from warpdeck_tui.viewmodels.jobs.listing import Choice, Listing
from warpdeck_tui.viewmodels.jobs.queue import (
    clock,
    how_ended,
    in_full,
    names_of,
    summary,
    targets,
    tasks_of,
    where,
)
from warpdeck_tui.viewmodels.jobs.verbs import fits, refusal, said_done

NOW = 10_000.0


def details(detail: JobDetail) -> list[Line]:
    """Return the lines of all groups of a job's details."""
    return [line for group in groups(detail, now=NOW).values() for line in group.lines]


def row(number: int = 1, **fields: object) -> JobRow:
    base: dict[str, object] = {"id": number, "label": str(number), "array_job_id": number, "user": "ann"}
    return JobRow(**{**base, **fields})  # type: ignore[arg-type]


def running(number: int = 1, **fields: object) -> JobRow:
    fields = {"state": "RUNNING", "state_short": "R", "start": NOW - 600, "node_list": "gpu01", **fields}
    return row(number, **fields)


def ended(number: int = 1, **fields: object) -> JobRow:
    fields = {"state": "FAILED", "state_short": "F", "end": NOW - 60, "exit_code": "1:0", **fields}
    return running(number, **fields)


def order_of(jobs: list[JobRow]) -> list[int]:
    """Return the ids of an unfolded listing in its order."""
    listing = Listing(folds=False)
    listing.follow({each.id: each for each in jobs}, Choice())
    return [each.id for each in listing.entries if isinstance(each, JobRow)]


def words(line: tuple[Cell, ...]) -> str:
    return "".join(cell.text for cell in line)


def test_running_jobs_come_first_and_recent_ends_before_older_ones() -> None:
    jobs = [ended(1, end=5.0), row(2), running(3), ended(4, end=9.0)]
    assert order_of(jobs) == [3, 2, 4, 1]


def test_waiting_jobs_are_in_the_planners_order() -> None:
    jobs = [row(1), row(2, priority=5), row(3, priority=90), row(4, priority=5), running(5)]
    assert order_of(jobs) == [5, 3, 2, 4, 1]


@pytest.mark.parametrize("name", ["x" * 300, "训练🚀" * 60])
def test_a_long_name_leaves_room_for_the_jobs_facts(name: str) -> None:
    job = running(name=name, cpus=4, time_limit_s=3600)
    full_text, [other, long] = (
        words(in_full(job, now=NOW)),
        confirmation("cancel", [running(2), job], []).lines,
    )
    assert (
        "…" in full_text
        and full_text.endswith("on gpu01 with 4 CPUs, 10:00 of 1:00:00")
        and cell_len(full_text) < 2 * 78
    )
    assert cell_len(other) == cell_len(long) < 72 and long.endswith("  ann")
    assert (
        "10:00 of 1:00:00" in words(job_view.head(job, now=NOW))
        and cell_len(words(job_view.head(job, now=NOW))) < 90
    )
    assert any(words(line).endswith(name) for line in details(JobDetail(row=job)))


def test_a_jobs_details_contain_its_times_and_no_repetition() -> None:
    why = WhyRow(code="DeadLine", sentence="ended without a start: it cannot end before its deadline")
    never = row(state="DEADLINE", submit=NOW - 7200, end=NOW - 60, why=why)
    lines = details(JobDetail(row=never, message="it cannot end before its deadline"))
    text = "\n".join(words(line) for line in lines)
    assert text.count("it cannot end before its deadline") == 1 and "DeadLine" in text
    assert "2h00 ago" in text and "1m ago" in text and "started" not in text


def test_the_tasks_of_an_array_are_listed_together() -> None:
    tasks = [running(9, array_job_id=2, array_task_id=0), running(2, array_task_id=1), running(5)]
    assert order_of(tasks) == [9, 2, 5]
    rest = row(2, tasks_pending=4)
    later = ended(11, array_job_id=2, array_task_id=2)
    assert [each.id for each in tasks_of(rest, [later, rest, tasks[0], tasks[2]])] == [9, 11]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [1, 2, 3]),
        ("llama", [1]),
        ("!llama", [2, 3]),
        ("st:pd", [2]),
        ("state:run", [1]),
        ("gpu>1", [1, 3]),
        ("gpu=2 user:bob", [3]),
        ("name~ama", [1]),
        ("user:me", [1, 2]),
        ("user:m", []),
        ("name~", [1, 2, 3]),
        ("gpu>", [1, 2, 3]),
        ("!", [1, 2, 3]),
        ("[", []),
    ],
)
def test_the_filter_selects_matching_jobs(text: str, found: list[int]) -> None:
    jobs = [
        running(1, name="llama", gpus=4),
        row(2, name="vit"),
        ended(3, name="sd", gpus=2, user="bob"),
    ]
    holds = holds_of(parse_filter(text, me="ann"))
    assert [each.id for each in jobs if holds(each)] == found


def test_a_waiting_job_shows_its_expected_start_and_reason() -> None:
    why = WhyRow(code="Resources", sentence="waits for 8 GPUs", expected_start=NOW + 3600)
    cells = job_row(row(why=why), DEFAULT_COLUMNS, now=NOW)
    assert cells[6].text == "≈1h00"
    assert cells[-1].text == "waits for 8 GPUs"
    assert words(in_full(row(why=why), now=NOW)).endswith(" (in 1h00)")


def test_an_overdue_start_is_shown_as_soon() -> None:
    why = WhyRow(code="Resources", sentence="waits for 8 GPUs", expected_start=NOW - 60)
    waits = row(why=why)
    assert job_row(waits, DEFAULT_COLUMNS, now=NOW)[6].text == "soon"
    assert words(in_full(waits, now=NOW)).endswith("; soon")
    assert words(job_view.status(waits, now=NOW)).startswith(" expected start soon:")
    assert any("soon, later than expected" in words(line) for line in details(JobDetail(row=waits)))


def test_an_ended_job_shows_its_exit_status() -> None:
    assert job_row(ended(), DEFAULT_COLUMNS, now=NOW)[-1].text == "exit 1, 1m ago, gpu01"
    killed = ended(exit_code="0:9", exit_cause="oom")
    assert job_row(killed, DEFAULT_COLUMNS, now=NOW)[-1].text == "signal 9 (oom), 1m ago, gpu01"


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_a_symbol_and_a_color(state: JobState) -> None:
    assert glyph(state) != "?" and len(glyph(state)) == 1
    assert state in STATE_ROLES and state in ansi_styles()


def test_a_job_that_never_started_shows_the_reason() -> None:
    why = WhyRow(code="DependencyNeverSatisfied", sentence="ended without a start: job 3 failed (afterok:3)")
    never = row(state="CANCELLED", state_short="CA", end=NOW - 60, why=why)
    assert job_row(never, DEFAULT_COLUMNS, now=NOW)[-1] == Cell(f"{why.sentence}, 1m ago", "CANCELLED")
    assert words(job_view.status(never, now=NOW)) == f" {why.sentence}, 1m ago"
    assert "1m ago" in words(in_full(never, now=NOW))


def test_a_suspended_job_is_shown_and_counted_as_suspended() -> None:
    stopped = running(state="SUSPENDED", state_short="S")
    assert job_row(stopped, DEFAULT_COLUMNS, now=NOW)[-1].text == "suspended on gpu01"
    assert "suspended on gpu01" in words(job_view.status(stopped, now=NOW))
    assert "suspended on gpu01" in words(in_full(stopped, now=NOW))
    assert summary([stopped, running(2), row(3)]) == "1 running, 1 suspended, 1 pending"
    assert "is suspended" in refusal("hold", stopped)


@pytest.mark.parametrize(("ran_s", "text"), [(59, "0:59"), (86_399, "23:59:59"), (1_000_000, "11-13:46")])
def test_the_run_time_fits_its_column(ran_s: int, text: str) -> None:
    assert clock(running(start=NOW - ran_s), NOW) == text


def test_the_client_state_counts_gpus_as_nodes_change() -> None:
    def node(name: str, *jobs: str) -> NodeRow:
        gpus = [
            GpuRow(index=at, uuid="", name="", type="", mem_bytes=1, job=job) for at, job in enumerate(jobs)
        ]
        return NodeRow(name=name, gpus=gpus)

    board = ClientState()
    board.restart()
    board.apply(Delta(nodes=[node("a", "1", ""), node("b", "", "")], ready=True))
    assert (board.held_gpus, board.gpus) == (1, 4)
    board.apply(Delta(nodes=[node("b", "2", "2")]))
    assert (board.held_gpus, board.gpus) == (3, 4)
    board.restart()
    board.apply(Delta(nodes=[node("b", "2", "")], ready=True))
    assert (board.held_gpus, board.gpus) == (1, 2)
    board.apply(Delta(gone_nodes=["b"]))
    assert (board.held_gpus, board.gpus, board.has_gpus()) == (0, 0, False)


@pytest.mark.parametrize(
    ("verb", "job", "why"),
    [
        ("cancel", running(), ""),
        ("cancel", ended(), "Job 1 has ended (FAILED)"),
        ("hold", row(), ""),
        ("hold", row(held=True), "Job 1 is already held. Press U to release it"),
        ("hold", running(), "Job 1 is already running. Only pending jobs can be held"),
        ("release", row(held=True), ""),
        ("release", row(), "Job 1 is not held"),
        ("requeue", ended(), ""),
        ("requeue", running(), ""),
        ("requeue", row(), "Job 1 is already pending"),
        (
            "requeue",
            ended(interactive=True),
            "Job 1 is interactive and cannot be requeued. Press i to start a new one",
        ),
        ("attach", running(interactive=True), ""),
        ("attach", running(), "Job 1 has no terminal. Press l to open its log"),
        ("attach", ended(interactive=True), "Job 1 has ended (FAILED)"),
    ],
)
def test_an_action_that_does_not_apply_has_a_reason(verb: str, job: JobRow, why: str) -> None:
    assert refusal(verb, job) == why
    assert fits(verb, [job]) is (not why)
    assert fits(verb, []) is False


def test_completed_actions_are_described() -> None:
    assert said_done("cancel", ["12"]) == "Canceled job 12"
    assert said_done("hold", ["1", "2"]) == "Held 2 jobs"


def test_an_action_on_waiting_array_tasks_excludes_started_ones() -> None:
    rest = row(2, label="2_[3-9]", tasks_pending=7)
    task = running(8, label="2_1", array_job_id=2, array_task_id=1)
    question = confirmation("cancel", [rest], [rest, task, running(5)])
    assert question.text == "Cancel 7 pending tasks of array 2?"
    assert question.command == "warpdeck cancel --state PD '2_[3-9]'"
    assert len(question.lines) == 1 and "7 pending tasks" in question.lines[0]
    assert question.effect.split("\n") == [
        "Ends 7 pending tasks; 1 running task stays",
        "There is no undo; warpdeck rerun submits a job again",
    ]
    assert names_of(rest) == targets("hold", [rest], [rest, task]) == ["2_[3-9]"]
    assert targets("cancel", [rest, task], [rest, task]) == ["2"]
    other = running(5)
    both = confirmation("cancel", [other, rest], [rest, task, other])
    assert both.command == f"warpdeck cancel {other.label}; warpdeck cancel --state PD '2_[3-9]'"


def test_scattered_tasks_are_named_in_several_parts() -> None:
    tasks = [str(task) for task in range(1, 2001, 2)]
    names = names_of(row(2, label=f"2_[{','.join(tasks)}]", tasks_pending=len(tasks)))
    assert all(len(name) <= 1024 for name in names)
    assert [task for name in names for task in name[len("2_[") : -1].split(",")] == tasks


def test_texts_of_other_users_contain_no_control_characters() -> None:
    why = WhyRow(sentence="no\x1b]52;c;AA\x07pe")
    evil = row(name="a\x1b[31mb\nc", user="x\x07", comment="\x9b1m", why=why)
    detail = JobDetail(row=evil, script="echo \x1b[2J", submit_line="a\nb", message="\x1b[5m")
    lines = [*details(detail), job_view.head(evil, now=NOW), job_view.status(evil, now=NOW)]
    lines += [in_full(evil, now=NOW), tuple(Cell(text) for text in confirmation("hold", [evil], []).lines)]
    assert all(cell.text.isprintable() for line in lines for cell in line)


def test_a_long_fact_is_wrapped_below_its_first_word() -> None:
    lines = folded(fact("why", "waits for two GPUs on one node"), 23)
    assert [words(line).rstrip() for line in lines] == [
        "      why waits for two",
        "          GPUs on one",
        "          node",
    ]
    for path in ("/" + "x" * 40, "/训练" * 10):
        lines = folded(fact("stdout", path), 20)
        assert all(cell_len(words(line)) <= 20 for line in lines)
        assert "".join(words(line)[10:] for line in lines) == path
    assert folded((), 20) == [()]


@pytest.mark.parametrize(("seconds", "text"), [(8, "8s"), (720, "12m"), (11_100, "3h05"), (187_200, "2d4h")])
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_old_rows_stay_after_a_reconnect_until_all_new_ones_arrived() -> None:
    board = ClientState()
    board.restart()
    board.apply(Delta(jobs=[row(1), row(2)], ready=True))
    board.restart()
    board.apply(Delta(jobs=[row(2)]))
    assert set(board.jobs) == {1, 2}
    board.apply(Delta(jobs=[row(3)], ready=True))
    assert set(board.jobs) == {2, 3}
    board.apply(Delta(gone_jobs=[2]))
    assert set(board.jobs) == {3}


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (row(), "No log: the job has not started"),
        (running(), "No output yet"),
        (ended(), "The log is empty"),
        (row(tasks_pending=3), "Each array task has its own log. Press l to select a task"),
    ],
)
def test_an_empty_log_shows_why_it_is_empty(job: JobRow, text: str) -> None:
    assert job_view.log_words(job, written=False, is_empty=True, told="") == text
    assert job_view.log_words(job, written=True, is_empty=False, told="") == ""


def test_a_log_is_not_called_empty_before_it_is_opened() -> None:
    for job in (running(), ended()):
        assert job_view.log_words(job, written=False, is_empty=False, told="") == ""


def test_a_failed_launch_reads_as_could_not_start() -> None:
    ended = row(state="FAILED", end=NOW - 60, exit_code="0:53", exit_cause="launch_failed", node_list="gpu01")
    assert how_ended(ended) == "could not start on gpu01"
    assert where(ended, NOW).text.startswith("could not start, ")
