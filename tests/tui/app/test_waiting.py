"""Why a job waits, in full and in short, and the place in line."""

from __future__ import annotations

from warpdeck.protocol.job_rows import JobRow, WhyRow
from warpdeck_tui.viewmodels.jobs.waiting import (
    FRESH_S,
    MOST_RANKED,
    LinePlaces,
    places_in_line,
    short_reason,
    whole_reason,
    why_words,
)

NEED = WhyRow(
    code="Resources", sentence="needs 4 GPUs on one node; best is gpu05 with 0 free", expected_start=50_400
)


def waiting(number: int, *, code: str = "Resources", priority: int = 10, partition: str = "main") -> JobRow:
    why = WhyRow(code=code, sentence="needs 4 GPUs on one node; best is gpu05 with 0 free")
    return JobRow(
        id=number, label=str(number), array_job_id=number, partition=partition, why=why, priority=priority
    )


def test_the_whole_reason_names_need_place_and_time() -> None:
    words = whole_reason(NEED, 2, now=50_400 - 7_800)
    assert words.startswith("needs 4 GPUs on one node; best is gpu05 with 0 free; #2 in line; about ")
    assert words.endswith(" (in 2h10)") and whole_reason(NEED, now=50_401).endswith("with 0 free; soon")
    assert whole_reason(WhyRow(code="Dependency"), now=0) == "Dependency"


def test_the_short_reason_begins_with_the_place_and_leaves_out_the_need() -> None:
    assert short_reason(NEED, 2) == "#2 in line; best is gpu05 with 0 free"
    assert short_reason(NEED) == "best is gpu05 with 0 free"
    assert (
        short_reason(WhyRow(sentence="waits for job 57 to end (afterok)"))
        == "waits for job 57 to end (afterok)"
    )


def test_a_key_replaces_the_command_that_releases_a_job() -> None:
    held = WhyRow(code="JobHeldUser", sentence="held; `warpdeck release 76` releases it")
    assert why_words(held) == "held; U releases it"
    assert why_words(WhyRow(sentence="its owner holds it; `warpdeck release` releases it")).endswith(
        "U releases it"
    )


def test_jobs_that_wait_for_resources_have_a_place_in_the_line_of_their_partition() -> None:
    rows = [
        waiting(1),
        waiting(2, priority=20),
        waiting(3, code="JobHeldUser"),
        waiting(4, partition="short"),
        waiting(5),
    ]
    assert places_in_line({row.id: row for row in rows}) == {2: 1, 1: 2, 5: 3, 4: 1}


def test_ten_jobs_with_the_same_need_have_different_reasons() -> None:
    rows = {number: waiting(number) for number in range(1, 11)}
    places = places_in_line(rows)
    shown = {short_reason(row.why, places[row.id]) for row in rows.values() if row.why is not None}
    assert len(shown) == 10


def test_a_very_long_queue_has_no_places() -> None:
    assert places_in_line({number: waiting(number) for number in range(MOST_RANKED + 1)}) == {}


def test_places_are_computed_again_only_after_some_seconds() -> None:
    line = LinePlaces()
    assert line.of({1: waiting(1)}, now=100.0) == {1: 1}
    assert line.of({}, now=100.0 + FRESH_S / 2) == {1: 1}
    assert line.of({}, now=100.0 + FRESH_S) == {}
