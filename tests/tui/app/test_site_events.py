"""The table of events: those of jobs, of nodes and of config.toml, its filter, and the jump to the map."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.model.config_edit import Amendment
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.viewmodels.site.events import (
    SiteEvent,
    config_events,
    event_rows,
    filtered,
    job_events,
    node_events,
)

EVENTS = [
    *job_events([EventRow(at=50.0, job=7, label="7_1", text="failed on gpu03")]),
    *node_events(
        [
            NodeEventRow(at=10.0, kind="drain", node="gpu03", text="fan"),
            NodeEventRow(at=20.0, kind="down", node="gpu04"),
            NodeEventRow(at=30.0, kind="gpu_drain", node="gpu05", text="ECC errors", gpus=2),
            NodeEventRow(at=35.0, kind="job", node="gpu05", text="big", job="9", gpus=8),
        ]
    ),
    *config_events([(40.0, "warpdeck config reload  # edit"), (41.0, "warpdeck config reload")]),
]


def told(events: list[SiteEvent]) -> list[tuple[str, str, str]]:
    return [(event.kind, event.subject, event.text) for event in events]


def test_all_kinds_of_events_are_one_list_with_the_latest_first() -> None:
    assert told(filtered(EVENTS, "")) == [
        ("job", "7_1", "failed on gpu03"),
        ("config", "config.toml", "loaded"),
        ("config", "config.toml", "edit"),
        ("fault", "gpu05", "2 GPUs drained: ECC errors"),
        ("outage", "gpu04", "down"),
        ("drain", "gpu03", "drained: fan"),
    ]
    rows = event_rows(EVENTS)
    assert len({key for key, _ in rows}) == len(EVENTS) and rows[0][0].startswith("7 ")


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("gpu03", ["7_1", "gpu03"]),
        ("GPU03 !job", ["gpu03"]),
        ("fault ecc", ["gpu05"]),
        ("!job !config !outage !fault", ["gpu03"]),
        ("!", ["7_1", "config.toml", "config.toml", "gpu05", "gpu04", "gpu03"]),
        ("xyzzy", []),
    ],
)
def test_the_filter_needs_all_words_and_leaves_out_those_after_a_mark(text: str, subjects: list[str]) -> None:
    assert [event.subject for event in filtered(EVENTS, text)] == subjects


async def test_a_drain_is_an_event_that_leads_to_the_map_at_that_moment(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.until(lambda: len(ui.app.board.nodes) == 2, "the nodes have arrived")
        await ui.app.core.node_drain("gpu02", reason="dust")
        await ui.press("6")
        await ui.shows("[Partitions]")
        ui.app.screen.show_tab("events")  # type: ignore[attr-defined]
        await ui.shows("[Events]", "drained by ", ": dust", "submitted")
        await ui.press("slash")
        await ui.type("drain")
        await ui.press("enter")
        await ui.hides("submitted")
        await ui.shows(": dust")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, NodesScreen), "the map")
        await ui.until(lambda: getattr(ui.app.screen, "moment", None) is not None, "a time in the past")


async def test_a_change_of_the_configuration_names_its_user_and_the_settings(folder: Path) -> None:
    async with run_app(folder) as ui:
        lab = Amendment(path=("accounts", "lab"), values={"shares": 3})
        await ui.app.core.ask(requests.Amend(changes=(lab,)))
        await ui.press("6")
        await ui.shows("[Partitions]")
        ui.app.screen.show_tab("events")  # type: ignore[attr-defined]
        await ui.shows("[Events]", "changed by ", "accounts.lab: added")


async def test_escape_clears_the_filter_of_events_first(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.press("6")
        await ui.shows("[Partitions]")
        ui.app.screen.show_tab("events")  # type: ignore[attr-defined]
        await ui.shows("submitted")
        await ui.press("slash")
        await ui.type("xyzzy")
        await ui.press("enter")
        await ui.shows("No event matches xyzzy. Press Esc to clear the filter")
        await ui.press("escape")
        await ui.shows("submitted")
