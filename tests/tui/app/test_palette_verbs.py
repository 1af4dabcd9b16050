"""Verbs with objects in the palette, their synonyms, and the notification about the undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.screens.shared.jobs.job_list import FilterLine
from warpdeck_tui.table.actions import ACTIONS
from warpdeck_tui.viewmodels.shell.palette_verbs import ACTION_SYNONYMS, VERBS, verb_of
from warpdeck_tui.viewmodels.shell.search_index import (
    HELP,
    SYNONYM,
    JobSearch,
    find_nodes,
    find_past_job,
    find_text,
    find_themes,
    score_of_action,
)

NODES = [NodeRow(name="gpu03", state="idle"), NodeRow(name="gpu04", state="drained", reason="fan")]


def job(number: int, state: str = "RUNNING", user: str = "ann") -> JobRow:
    short = "PD" if state == "PENDING" else "R"
    return JobRow(
        id=number,
        label=str(number),
        array_job_id=number,
        name="llama",
        user=user,
        state=state,
        state_short=short,
    )


def titles(query: str, *jobs: JobRow, cursor: tuple[str, ...] = ()) -> list[str]:
    search = JobSearch(query, user="ann", under_cursor=cursor)
    search.look(jobs)
    return [thing.title for thing in search.best()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("cancel 77", ("cancel", "77")),
        ("kill 77", ("cancel", "77")),
        ("tail 12", ("log", "12")),
        ("why 12", ("why", "12")),
        ("down gpu03", ("drain", "gpu03")),
        ("theme nord", ("theme", "nord")),
        ("dark", ("dark", "")),
        ("re 12", ("", "re 12")),
        ("user bob", ("", "user bob")),
        ("lo", ("", "lo")),
        ("lo 12", ("log", "12")),
        ("", ("", "")),
    ],
)
def test_a_query_begins_with_a_verb_or_its_synonym(query: str, found: tuple[str, str]) -> None:
    assert verb_of(query) == found


def test_each_verb_and_synonym_has_one_meaning() -> None:
    words = [word for verb in VERBS for word in (verb.name, *verb.synonyms)]
    assert len(words) == len(set(words))
    assert set(ACTION_SYNONYMS) <= {(action.where, action.id) for action in ACTIONS}


def test_a_verb_finds_the_jobs_to_which_it_applies() -> None:
    runs, waits = job(7), job(8, "PENDING")
    assert titles("why 8", runs, waits) == ["Why: job 8"]
    assert titles("kill 7", runs, waits) == ["Cancel job 7"]
    assert titles("log llam", runs, waits) == ["Log of job 8", "Log of job 7"]
    assert titles("hold 7", runs, waits) == []


def test_a_verb_alone_finds_the_users_jobs_and_first_the_one_under_the_cursor() -> None:
    jobs = [job(1), job(2, user="bob"), job(3), job(4, "PENDING")]
    assert titles("cancel", *jobs, cursor=("1",)) == [f"Cancel job {number}" for number in (1, 4, 3, 2)]
    assert titles("why", *jobs) == ["Why: job 4"]
    assert titles("log", job(4, "PENDING")) == []


def test_a_job_that_has_left_the_queue_is_offered_for_its_page_but_not_for_changes() -> None:
    assert [thing.title for thing in find_past_job("log 12", {7})] == ["Log of job 12"]
    assert [(thing.kind, thing.key) for thing in find_past_job("job 12", {7})] == [("job", "12")]
    assert not find_past_job("log 7", {7}) and not find_past_job("cancel 12", {7})
    assert not find_past_job("log llama", {7}) and not find_past_job("log " + "9" * 400, {7})


def test_drain_offers_nodes_in_service_and_resume_drained_ones() -> None:
    assert [(each.kind, each.key) for each in find_nodes(NODES, "drain")] == [("drain", "gpu03")]
    assert [(each.kind, each.key) for each in find_nodes(NODES, "resume gpu")] == [("resume", "gpu04")]
    assert find_nodes(NODES, "resume gpu03") == [] == find_nodes(NODES, "cancel gpu03")


def test_themes_filters_and_columns_are_objects_too() -> None:
    themes = [("nord", True), ("deck-light", False), ("latte", False)]
    assert [each.key for each in find_themes(themes, "theme nord", now="nord")] == ["nord"]
    assert [each.key for each in find_themes(themes, "light", now="nord")] == ["deck-light", "latte"]
    assert find_themes(themes, "nord", now="") == []
    assert [each.title for each in find_text("filter gpu>4")] == ["Filter the queue: gpu>4"]
    assert [each.key for each in find_text("sort ut", columns=("job", "util"))] == ["util"]
    assert find_text("at") == []


def test_an_action_is_found_by_a_synonym() -> None:
    words = "quit the app; jobs keep running"
    assert score_of_action("exit", keys="q", words=words, title_score=0.0, synonyms="exit bye") == SYNONYM
    assert score_of_action("exi", keys="q", words=words, title_score=0.0, synonyms="exit bye") == HELP


async def test_drain_in_the_queue_asks_for_the_reason_and_names_the_undo(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.until(lambda: len(ui.app.board.nodes) == 2, "the nodes have arrived")
        await ui.press("colon")
        await ui.type("drain gpu02")
        await ui.press("enter")
        await ui.shows("Reason for draining gpu02")
        await ui.type("fan")
        await ui.press("enter")
        await ui.shows_notification("Drained gpu02. Z undoes it: warpdeck node resume gpu02")
        await ui.until(lambda: ui.app.board.nodes["gpu02"].state == "drained", "the node is drained")
        await ui.press("colon")
        await ui.type("up")
        await ui.type(" 2")
        await ui.press("enter")
        await ui.shows("Resume gpu02?")


async def test_why_opens_the_reason_and_kill_asks_and_says_that_there_is_no_undo(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.until(lambda: ui.app.board.jobs, "the job has arrived")
        await ui.press("colon")
        await ui.type("why 1")
        await ui.press("enter")
        await ui.until(lambda: getattr(ui.app.screen, "_pane", "") == "details", "the details of the job")
        await ui.press("colon")
        await ui.type("kill 1")
        await ui.press("enter")
        await ui.shows("Cancel job 1?", "There is no undo; warpdeck rerun 1 submits the job again")


async def test_a_theme_and_a_filter_are_applied(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("colon")
        await ui.type("theme nord")
        await ui.press("enter")
        await ui.until(lambda: ui.app.theme == "nord", "the theme is applied")
        await ui.press("colon")
        await ui.type("filter user:bob")
        await ui.press("enter")
        await ui.until(
            lambda: ui.app.screen.query_one(FilterLine).value == "user:bob", "the filter is applied"
        )
