"""The timeline below the map: its lines, and the keys that go to its events."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck.protocol.results import Timeline
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.viewmodels.nodes.timeline import (
    HOUR_S,
    Range,
    event_words,
    next_event,
    range_at,
    timeline_lines,
    timeline_title,
)

NOW = 1_000_000_000.0
DAY_S = 24 * HOUR_S


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


DRAIN = NodeEventRow(at=NOW - 18 * HOUR_S, kind="drain", node="gpu08", text="ECC errors")
DOWN = NodeEventRow(at=NOW - 12 * HOUR_S, kind="down", node="gpu05", text="no route")
UP = NodeEventRow(at=NOW - 12 * HOUR_S + 60, kind="up", node="gpu05")
JOB = NodeEventRow(
    at=NOW - 6 * HOUR_S, kind="job", node="gpu[01-02]", text="vit", job="7", user="ann", gpus=16
)
EVENTS = [DRAIN, DOWN, UP, JOB]


def timeline(shown: Range) -> Timeline:
    return Timeline(
        since=shown.since,
        until=NOW,
        gpus=64,
        events=EVENTS,
        allocated=[32.0] * 10,
        util_pct=[0.0, None, *[75.0] * 8],
    )


def lines(at: float, *, width: int = 100, height: int = 4, told: bool = True) -> list[str]:
    shown = range_at(at, NOW, DAY_S)
    found = timeline_lines(timeline(shown) if told else None, shown, at, now=NOW, width=width, height=height)
    return ["".join(cell.text for cell in line) for line in found]


def test_the_events_are_marks_on_a_line_with_a_mark_at_the_time_that_is_shown() -> None:
    use, track, axis, near = lines(NOW - 12 * HOUR_S)
    assert track.count("▼") == track.count("●") == 1 and "✗" not in track, "the mark hides the event below it"
    assert track.index("▼") < track.index("◆") < track.index("●")
    assert "4 events" in track and "75% 32/64 GPUs" in use and "▆" in use
    assert "13:46" in axis and axis.index("13:46") <= track.index("◆") <= axis.index("13:46") + 5
    assert near == "✗ Sat 13:46 gpu05 down: no route"


def test_far_from_any_event_the_signs_are_explained() -> None:
    assert lines(NOW - 3 * HOUR_S)[-1].split() == [
        "✗", "down", "▼", "drained", "▲", "back", "●", "large", "job",
    ]  # fmt: skip


def test_a_low_timeline_leaves_out_the_use_of_the_gpus_and_a_missing_one_says_that_it_loads() -> None:
    low = lines(NOW - 3 * HOUR_S, height=3)
    assert len(low) == 3 and "GPUs" not in low[0]
    assert "loading" in lines(NOW - 3 * HOUR_S, told=False)[-1]


@pytest.mark.parametrize("width", [30, 77, 140, 198])
def test_no_line_is_wider_than_the_timeline(width: int) -> None:
    for hours in (0.0, 0.3, 5, 13, 23.9):
        for line in lines(NOW - hours * HOUR_S, width=width):
            assert len(line) <= width, line


def test_no_part_of_a_label_stays_beside_the_time_that_is_shown() -> None:
    for minutes in range(0, 1440, 7):
        axis = lines(NOW - minutes * 60, width=120)[2]
        assert all(re.fullmatch(r"\d\d:\d\d", label) for label in axis.split()), axis


def test_the_range_ends_now_or_contains_an_older_time() -> None:
    newest = range_at(NOW - HOUR_S, NOW, DAY_S)
    assert (
        newest.until > NOW >= newest.until - 600
        and timeline_title("24 hours", newest, NOW) == "Last 24 hours"
    )
    assert range_at(NOW - 2 * HOUR_S, NOW + 5, DAY_S) == newest, "a step does not cause another request"
    old = range_at(NOW - 50 * HOUR_S, NOW, DAY_S)
    assert old.since < NOW - 50 * HOUR_S < old.until and old.until - old.since == DAY_S


def test_the_next_and_the_previous_event_are_found() -> None:
    assert next_event(EVENTS, DOWN.at, forward=True) == UP
    assert next_event(EVENTS, DOWN.at, forward=False) == DRAIN
    assert next_event(EVENTS, NOW, forward=True) is None
    assert next_event(EVENTS, NOW, forward=False) == JOB


def test_the_start_of_a_job_is_described_with_its_user_and_nodes() -> None:
    assert event_words(JOB, NOW) == "Sat 19:46 job 7 of ann started: 16 GPUs on gpu[01-02], vit"


async def test_the_keys_go_from_event_to_event_and_back_to_now(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        await ui.shows("0 of 8 GPUs allocated")
        assert "Last 24 hours" not in ui.text()
        for reason in ("a fan", "a disk"):
            await ui.app.core.node_drain("gpu01", reason=reason)
            await ui.app.core.node_resume("gpu01")
        screen = ui.app.screen
        assert isinstance(screen, NodesScreen)
        await ui.press("left_curly_bracket")
        await ui.shows("Last 24 hours", "gpu01 resumed", "4 events")
        latest = screen._at
        await ui.press("left_curly_bracket")
        await ui.shows("gpu01 drained: a disk")
        await ui.press("right_curly_bracket")
        await ui.until(lambda: screen._at == latest, "the event after it")
        await ui.press("right_curly_bracket")
        await ui.shows_notification("No later event")
        await ui.press("z")
        await ui.shows("Last 7 days")
        await ui.press("escape")
        await ui.hides("Last 7 days")


async def test_an_event_of_another_screen_opens_the_map_at_its_time(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.shows("GPUs")
        ui.app.navigation.open_map_at(time.time() - 60)
        await ui.shows("1m ago", "Last 24 hours")
        ui.app.navigation.open_map_at(time.time() - 7200)
        await ui.shows("2h00 ago")
