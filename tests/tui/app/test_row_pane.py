"""The panes beside the tables of the site and beside the list of sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from tests.tui.static_cluster import jobs, nodes
from tests.tui.static_site import NOW

from warpdeck_tui.screens.shared.row_pane import RowJobs, RowPane
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.site.events import SiteEvent, event_rows
from warpdeck_tui.viewmodels.site.row_details import (
    MOST_JOBS,
    job_lines,
    jobs_of,
    jobs_title,
    node_lines,
    row_details,
    row_title,
)
from warpdeck_tui.widgets.columns import Column

COLUMNS = (Column("NAME", 8), Column("LIMIT", 8), Column("", 3), Column("EMPTY", 3))


def text(lines: list[Line]) -> list[str]:
    return ["".join(cell.text for cell in line) for line in lines]


def test_the_title_of_an_event_is_its_kind_and_its_object() -> None:
    [(key, cells)] = event_rows([SiteEvent(0.0, "9 12", "job", "3_2", "started on n3", "")])
    assert row_title("events", key, cells) == "job 3_2"
    assert (row_title("qos", "high", (Cell("high"),)), row_title("qos", "", ())) == ("high", "qos")


def test_a_row_is_shown_with_one_fact_per_line() -> None:
    cells = (Cell("gpu\x1b[2J"), Cell(" 1:00 "), Cell("x"), Cell(" "))
    assert text(row_details(COLUMNS, cells, words="a sentence\nanother one")) == [
        " name  gpu\N{REPLACEMENT CHARACTER}[2J",
        "limit  1:00",
        "",
        "a sentence",
        "another one",
    ]
    assert row_details(COLUMNS, ()) == []


def test_the_jobs_of_a_row_are_those_that_it_limits_or_holds() -> None:
    def labels(table: str, key: str) -> set[str]:
        found = jobs_of(table, key, jobs())
        assert found is not None
        return {row.label for row in found if row.end is None}

    assert "101" in labels("partitions", "gpu") and not labels("partitions", "short")
    assert labels("drains", "gpu02") == {"101"}
    assert labels("accounts", "nlp ") == {row.label for row in jobs() if row.account == "nlp" and not row.end}
    assert labels("accounts", "nlp alice") < labels("accounts", "nlp ")
    assert labels("priorities", "130") == {"130"}
    assert jobs_of("reservations", "class", jobs()) is None


def test_only_the_first_jobs_are_listed() -> None:
    row = jobs()[0]
    assert jobs_title([]) == "no jobs now"
    assert text(job_lines([row] * (MOST_JOBS + 5), now=NOW, width=60))[-1] == "and 5 more"


@pytest.mark.parametrize("width", [30, 42, 44, 60, 73, 120])
def test_the_lines_of_jobs_and_nodes_fit_into_the_pane(width: int) -> None:
    lines = [*job_lines(jobs(), now=NOW, width=width), *node_lines(nodes(), width=width)[2:]]
    assert max(map(len, text(lines))) <= max(width, 41)


def test_the_nodes_of_a_partition_say_what_is_free() -> None:
    lines = text(node_lines(nodes(), width=60))
    assert lines[1] == "nodes  19 GPUs free, at most 8 on one node (gpu07)"
    assert "4/8 GPUs  mixed" in lines[7] and "drained" in lines[9]
    assert node_lines([], width=60) == []


async def test_the_jobs_of_a_partition_stand_below_a_short_table(folder: Path) -> None:
    async with run_app(folder, size=(160, 40)) as ui:
        await ui.cluster.submit("vit")
        await ui.press("6")
        await ui.shows("main: 1 running, 0 pending")
        assert ui.app.screen.query_one(RowJobs).display
        await ui.pilot.resize_terminal(160, 16)
        await ui.hides("main: 1 running, 0 pending")
        assert not ui.app.screen.query_one(RowJobs).display


async def test_the_row_under_the_cursor_is_shown_beside_the_table(folder: Path) -> None:
    async with run_app(folder, size=(160, 40)) as ui:
        await ui.cluster.submit("vit")
        await ui.shows("● R")
        await ui.press("6")
        await ui.shows("partition  main", "1 running, 0 pending", "vit")
        await pane_is_drawn_once(ui)
        await ui.pilot.resize_terminal(100, 30)
        await ui.hides("partition  main")
        await ui.shows("main: 1 running, 0 pending")


async def pane_is_drawn_once(ui: AppPilot) -> None:
    pane = ui.app.screen.query_one(RowPane)
    await ui.settle()
    drawn = pane._drawn
    for _ in range(3):
        ui.app.refresher.redraw()
    assert pane._drawn is drawn


async def test_a_wide_terminal_shows_facts_about_a_session_without_a_screen(folder: Path) -> None:
    async with run_app(folder, size=(160, 40)) as ui:
        await ui.press("5")
        await ui.shows("No sessions. Press i to open a shell")
        await ui.cluster.submit_shell()
        await ui.shows("shell", "● R", "1 shell")


def test_abbreviations_keep_their_capitals() -> None:
    lines = row_details((Column("GPUS", 9), Column("ALLOWED QOS", 9)), (Cell("8/16"), Cell("normal")))
    assert ["".join(cell.text for cell in line).split() for line in lines] == [
        ["GPUs", "8/16"],
        ["allowed", "QoS", "normal"],
    ]
