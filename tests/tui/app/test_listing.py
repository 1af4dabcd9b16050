"""Lists of jobs: folding of arrays, sorting, and updates when jobs change, for any number of jobs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

import pytest

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow, WhyRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.viewmodels.jobs.arrays import Fold
from warpdeck_tui.viewmodels.jobs.confirmation import confirmation
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, JOB_COLUMNS, JobRows
from warpdeck_tui.viewmodels.jobs.listing import SLICE, Choice, Listing, key_of
from warpdeck_tui.viewmodels.jobs.order import SORTED_BY, Order, Rank
from warpdeck_tui.viewmodels.jobs.queue import array_in_full, in_full, targets, where
from warpdeck_tui.viewmodels.jobs.task_choice import chosen_tasks, effect

NOW = 100_000.0


def job(number: int, **fields: object) -> JobRow:
    base: dict[str, object] = {"id": number, "label": str(number), "array_job_id": number, "user": "ann"}
    return JobRow(**{**base, **fields})  # type: ignore[arg-type]


def task(number: int, index: int, state: str = "RUNNING", short: str = "R", **fields: object) -> JobRow:
    fields = {"array_job_id": 7, "array_task_id": index, "label": f"7_{index}", **fields}
    return job(number, state=state, state_short=short, start=NOW - 600, **fields)


def sweep() -> dict[int, JobRow]:
    """Return an array of which 87 tasks run, 3 have failed and 10 wait."""
    why = WhyRow(code="Resources", sentence="waits for 10 GPUs", expected_start=NOW + 60)
    rest = job(7, label="7_[90-99]", tasks_pending=10, gpus=1, name="sweep", why=why)
    runs = [task(100 + at, at, gpus=1, gpu_util_pct=90, name="sweep") for at in range(87)]
    failed = [task(300 + at, at, "FAILED", "F", end=NOW - 5, name="sweep") for at in range(87, 90)]
    return {row.id: row for row in (rest, *runs, *failed)}


def listed(jobs: Mapping[int, JobRow], choice: Choice | None = None) -> Listing:
    listing = Listing()
    follow(listing, jobs, choice or Choice())
    return listing


def follow(listing: Listing, jobs: Mapping[int, JobRow], choice: Choice) -> bool:
    """Update the listing until it has processed all jobs. Return whether it changed."""
    changed = listing.follow(jobs, choice)
    while listing.behind:
        changed |= listing.follow(jobs, choice)
    return changed


def text(listing: Listing, line: int) -> list[str]:
    return [cell.text for cell in JobRows(listing, DEFAULT_COLUMNS, now=NOW).row(line)]


def test_a_narrow_column_starts_with_the_missing_resource() -> None:
    why = WhyRow(code="Resources", sentence="needs 4 GPUs on one node; best is n05 with 2 free")
    assert where(job(1, why=why), NOW).text == "best is n05 with 2 free"
    after = "waits for job 57 to end (afterok)"
    assert where(job(2, why=WhyRow(code="Dependency", sentence=after)), NOW).text == after


def test_an_array_is_one_line_with_the_counts_of_its_tasks() -> None:
    listing = listed(sweep())
    assert len(listing.entries) == 1
    shown = dict(zip(DEFAULT_COLUMNS, text(listing, 0), strict=True))
    assert (shown["job"], shown["state"], shown["gpus"]) == ("7_[0-99]", "● R", "87")
    assert shown["where"] == "87 R 3 F 10 PD  waits for 10 GPUs"
    array = listing.fold("array 7")
    assert array is not None
    full_text = "".join(cell.text for cell in array_in_full(array, now=NOW))
    assert "87 running, 3 failed, 10 pending on 87 GPUs" in full_text and "in about 1m" in full_text


def test_an_ended_array_shows_the_state_of_its_failed_tasks() -> None:
    failed = task(300, 0, "OUT_OF_MEMORY", "OOM", end=NOW - 50)
    done = [task(301 + at, 1 + at, "COMPLETED", "CD", end=NOW - 5) for at in range(3)]
    jobs = {row.id: row for row in (failed, *done)}
    assert text(listed(jobs), 0)[1] == "\u2717 OOM"
    assert text(listed({row.id: row for row in done}), 0)[1] == "\u2713 CD"
    assert text(listed(jobs | {400: task(400, 9)}), 0)[1] == "\u25cf R"


def test_an_open_array_shows_its_tasks_below_its_line() -> None:
    listing = listed({**sweep(), 1: job(1)})
    listing.toggle(7)
    assert len(listing.entries) == 93 and isinstance(listing.entries[0], Fold)
    assert text(listing, 1)[0] == "  7_0" and text(listing, 92)[0] == "1"
    listing.toggle(7)
    assert [key_of(entry) for entry in listing.entries] == ["array 7", "1"]


def test_tasks_of_an_open_sweep_show_their_values() -> None:
    tasks = {100 + at: task(100 + at, at, name="vit", sweep=f"lr=0.1 seed={at}") for at in range(3)}
    listing = listed(tasks)
    assert text(listing, 0)[2] == "vit"
    listing.toggle(7)
    assert [text(listing, line)[2] for line in (1, 3)] == ["lr=0.1 seed=0", "lr=0.1 seed=2"]
    assert text(listed({1: job(1, name="vit", sweep="lr=2")}), 0)[2] == "vit lr=2"
    full_text = "".join(cell.text for cell in in_full(tasks[102], now=NOW))
    assert full_text.startswith("7_2 vit lr=0.1 seed=2  on ")


def test_an_array_without_started_tasks_is_shown_as_a_job() -> None:
    listing = listed({7: sweep()[7]})
    assert [key_of(entry) for entry in listing.entries] == ["7"]
    assert text(listing, 0)[-1] == "waits for 10 GPUs"


def test_a_filter_narrows_the_tasks_of_an_array() -> None:
    listing = listed(sweep(), Choice(text="state:f"))
    assert text(listing, 0)[-1] == "3 F"


def test_an_action_names_an_array_by_its_number_only_if_it_covers_all_tasks() -> None:
    rows = sweep()
    live = [row for row in rows.values() if row.end is None]
    assert targets("cancel", live, rows.values()) == ["7"]
    assert targets("cancel", live[1:], rows.values())[:2] == ["7_0", "7_1"]
    assert targets("cancel", live[:1], rows.values()) == ["7_[90-99]"]
    failed = [row for row in rows.values() if row.end is not None]
    assert targets("requeue", failed, rows.values()) == ["7_87", "7_88", "7_89"]
    question = confirmation("cancel", live, rows.values())
    assert (question.text, question.command) == ("Cancel all tasks of array 7?", "warpdeck cancel 7")
    assert confirmation("cancel", live[1:2], rows.values()).text == "Cancel job 7_0?"


def test_idle_gpus_are_highlighted() -> None:
    idle = task(1, 0, gpus=2, gpu_util_pct=0)
    starting = task(2, 1, gpus=2, gpu_util_pct=0)
    assert JOB_COLUMNS["util"].job(idle, NOW) == ("idle 0%", "warn")
    assert JOB_COLUMNS["util"].job(starting, NOW - 590).text == "0%"
    assert text(listed({1: idle, 2: task(2, 1, gpus=1, gpu_util_pct=80)}), 0)[9] == "1 idle"


@pytest.mark.parametrize("column", SORTED_BY)
def test_rows_without_a_value_come_last_in_both_sort_directions(column: str) -> None:
    jobs = {1: job(1), 2: task(2, 0, gpus=1, gpu_util_pct=5, node_list="a", time_limit_s=60), 3: job(3)}
    rising = listed(jobs, Choice(order=Order(column))).entries
    falling = listed(jobs, Choice(order=Order(column, descending=True))).entries
    assert {key_of(entry) for entry in rising} == {key_of(entry) for entry in falling}
    if column in ("time", "limit", "util", "where"):
        assert key_of(rising[0]) == key_of(falling[0]) == "2"


@pytest.mark.parametrize("order", [Order(), Order("name"), Order("gpus", descending=True)])
def test_an_updated_listing_equals_a_new_one(order: Order) -> None:
    rng = random.Random(4)
    kept, jobs, choice = Listing(), dict[int, JobRow](), Choice(user="ann", text="!hidden", order=order)
    for round_number in range(60):
        for _ in range(rng.choice((1, 3, 40))):
            number = rng.randrange(1, 60)
            if rng.random() < 0.25:
                jobs.pop(number, None)
                continue
            name = rng.choice(("a", "b", "hidden"))
            user = rng.choice(("ann", "ann", "bob"))
            jobs[number] = (
                task(number, number, name=name, user=user, gpus=number % 4, array_job_id=number // 20 * 1000)
                if rng.random() < 0.5
                else job(number, name=name, user=user, priority=rng.randrange(9))
            )
        kept.follow(jobs, choice)
        fresh = listed(jobs, choice)
        for listing in (kept, fresh):
            assert listing.jobs.keys() == fresh.jobs.keys()
        assert list(map(key_of, kept.entries)) == list(map(key_of, fresh.entries)), round_number


def test_running_jobs_of_a_long_queue_come_with_the_first_slice() -> None:
    jobs = {at: job(at, priority=at % 1000) for at in range(1, 4 * SLICE)}
    jobs[4 * SLICE] = job(4 * SLICE, state="RUNNING", state_short="R", start=NOW)
    listing, slices = Listing(), 1
    assert listing.follow(jobs, Choice())
    assert listing.behind and len(listing.entries) == SLICE
    assert key_of(listing.entries[0]) == str(4 * SLICE)
    while listing.behind:
        del jobs[slices]
        jobs[4 * SLICE + slices] = job(4 * SLICE + slices)
        listing.follow(jobs, Choice())
        slices += 1
        assert slices < 10
    assert list(map(key_of, listing.entries)) == list(map(key_of, listed(jobs).entries))
    assert not listing.follow(jobs, Choice())


class Counting(Order):
    """An order that counts the jobs it examines."""

    examined: ClassVar[int] = 0

    def place(self, row: JobRow) -> Rank:
        Counting.examined += 1
        return super().place(row)


def test_only_changed_jobs_of_a_hundred_thousand_are_examined() -> None:
    jobs = {at: job(at, name=f"train{at % 97}", priority=at % 1000) for at in range(1, 100_001)}
    listing, choice = Listing(), Choice(order=Counting("name"))
    assert follow(listing, jobs, choice)
    assert Counting.examined == 100_000
    assert not listing.follow(jobs, choice) and Counting.examined == 100_000
    jobs[5] = job(5, name="a")
    del jobs[9]
    assert listing.follow(jobs, choice) and Counting.examined == 100_001
    assert key_of(listing.entries[0]) == "5" and len(listing.entries) == 99_999


def test_a_removed_arrays_line_can_be_drawn_until_the_next_update() -> None:
    jobs = sweep()
    listing = listed(jobs)
    fold = next(each for each in listing.entries if isinstance(each, Fold))
    before = fold.head.array_job_id
    assert follow(listing, {}, Choice())
    assert not listing.entries and fold.head.array_job_id == before


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0", ["7_0"]),
        ("95-", ["7_[95-99]"]),
        ("-1,98", ["7_0", "7_1", "7_[98]"]),
        ("90-99", ["7_[90-99]"]),
        ("90-99:5", ["7_[90,95]"]),
    ],
)
def test_tasks_of_an_array_are_chosen_by_number(text: str, labels: list[str]) -> None:
    live = [row for row in sweep().values() if row.end is None]
    assert sorted(row.label for row in chosen_tasks(live, text)) == sorted(labels)


@pytest.mark.parametrize("text", ["x", "-", "", "9-3", "1,,2", "200-"])
def test_task_numbers_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        chosen_tasks([row for row in sweep().values() if row.end is None], text)


def test_a_part_of_the_pending_tasks_is_never_named_as_the_whole_array() -> None:
    rows = sweep()
    live = [row for row in rows.values() if row.end is None]
    part = chosen_tasks(live, "0-98")
    assert "7" not in targets("cancel", part, rows.values())
    assert effect("cancel", part, rows.values()).endswith("; 1 pending task stays")


def test_a_job_on_an_unreachable_node_is_not_shown_as_running() -> None:
    jobs = {1: job(1, state="RUNNING", state_short="R", start=NOW - 60, node_list="gpu[01-03]"), 2: job(2)}
    rows = JobRows(listed(jobs), ("job", "state", "where"), now=NOW, lost={"gpu03": NOW - 185})
    assert [cell.text for cell in rows.row(0)] == ["1", "⚠ R?", "gpu03 unreachable for 3m"]
    assert [cell.text for cell in rows.row(1)][1] == "◌ PD"
    told = "".join(cell.text for cell in in_full(jobs[1], now=NOW, lost={"gpu02": None, "gpu03": NOW - 185}))
    assert told.endswith("2 nodes unreachable for 3m; whether the job still runs is unknown")
    assert JobRows(listed(jobs), ("state",), now=NOW, lost={"gpu09": NOW}).row(0)[0].text == "● R"


def test_the_client_state_knows_the_unreachable_nodes() -> None:
    board = ClientState()
    board.apply(
        Delta(nodes=[NodeRow(name="gpu01", state="down", at=5.0), NodeRow(name="gpu02", state="idle")])
    )
    assert board.lost == {"gpu01": 5.0}
    board.apply(Delta(nodes=[NodeRow(name="gpu01", state="mixed", at=9.0)]))
    assert board.lost == {}


def test_the_name_column_is_as_wide_as_the_shown_names() -> None:
    tasks = {100 + at: task(100 + at, at, name="vit", sweep=f"lr=0.1 seed={at}") for at in range(3)}
    listing = listed(tasks)
    assert listing.widths.widths["name"] == len("vit")
    listing.toggle(7)
    assert listing.widths.widths["name"] == len("lr=0.1 seed=2")
