"""Search for jobs, nodes and users in the palette."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.command_palette import SLICE, Objects, Palette
from warpdeck_tui.screens.shared.jobs.job_list import FilterLine
from warpdeck_tui.viewmodels.shell.palette_verbs import verb_of
from warpdeck_tui.viewmodels.shell.search_index import (
    HELP,
    KEY,
    MAX_QUERY_CHARACTERS,
    MOST_FOUND,
    JobSearch,
    Thing,
    find_nodes,
    find_users,
    score_of_action,
)


def job(number: int, name: str, *, user: str = "ann", **fields: object) -> JobRow:
    return JobRow(id=number, label=str(number), array_job_id=number, name=name, user=user, **fields)  # type: ignore[arg-type]


def find_jobs(jobs: Sequence[JobRow], query: str, *, at_once: int = 2) -> list[Thing]:
    """Return the matches of a search that examines `at_once` jobs at a time."""
    search = JobSearch(query)
    for first in range(0, len(jobs), at_once):
        search.look(jobs[first : first + at_once])
    return search.best()


JOBS = [
    job(12, "llama-7b"),
    job(120, "eval", user="bob", state="RUNNING", state_short="R"),
    job(121, "big-llama"),
    job(300, "lora_all_a"),
    job(400, "12"),
]


def test_jobs_are_ordered_by_match_quality_and_then_newest_first() -> None:
    assert [thing.key for thing in find_jobs(JOBS, "12")] == ["400", "12", "121", "120"]
    assert [thing.key for thing in find_jobs(JOBS, "LLAMA")] == ["12", "121"]
    assert [thing.key for thing in find_jobs(JOBS, "lla")] == ["12", "121", "300"]
    assert find_jobs(JOBS, " ") == [] == find_jobs(JOBS, "[")


def test_an_action_finds_only_jobs_that_allow_it() -> None:
    assert verb_of("can llm") == ("cancel", "llm") and verb_of("hold ") == ("hold", "")
    assert verb_of("re 12") == ("", "re 12")  # release or requeue
    assert [(thing.kind, thing.title) for thing in find_jobs(JOBS, "requeue 120")] == [
        ("requeue", "Requeue job 120")
    ]
    assert "Hold job 120" not in [thing.title for thing in find_jobs(JOBS, "hold 12")]


def test_nodes_and_users_are_found() -> None:
    nodes = [NodeRow(name=f"gpu{number:02}", state="idle") for number in range(1, 30)]
    assert [thing.key for thing in find_nodes(nodes, "07")] == ["gpu07"]
    assert len(find_nodes(nodes, "gpu")) == MOST_FOUND
    assert [thing.words for thing in find_users(JOBS, "an")] == ["4 jobs in the queue"]


def test_a_query_may_start_with_the_kind_of_object() -> None:
    nodes = [NodeRow(name="gpu12", state="idle")]
    for query, found in {
        "job 12": [2, 0, 0],
        "node 12": [0, 1, 0],
        "user bob": [0, 0, 1],
        "hold job 120": [0, 0, 0],
    }.items():
        exact = [thing for thing in find_jobs(JOBS, query) if thing.key in ("12", "400")]
        assert [len(exact), len(find_nodes(nodes, query)), len(find_users(JOBS, query))] == found, query
    assert [thing.title for thing in find_jobs(JOBS, "cancel job 120")] == ["Cancel job 120"]


@pytest.mark.parametrize(
    ("query", "score"), [("q", KEY), ("^p", KEY), ("running", HELP), ("eave", 0.0), ("le", 0.0), ("", 0.0)]
)
def test_an_action_is_found_by_its_key_and_its_help_text(query: str, score: float) -> None:
    assert (
        score_of_action(query, keys="q ^p", words="leave the app; jobs keep running", title_score=0.0)
        == score
    )
    assert score_of_action(query, keys="", words="leave", title_score=5.0) == 5.0


@pytest.mark.parametrize("query", ["l" * 10_000, "l " * 5_000, "a" * MAX_QUERY_CHARACTERS])
def test_a_long_queue_is_searched_quickly_for_any_query(query: str) -> None:
    many = [job(number, f"train-llama-{number % 977}-{'al' * 20}") for number in range(10_000)]
    began = time.process_time()
    find_jobs(many, query, at_once=1_000)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("query", ["t", "train9", "9", "hold t"])
def test_a_search_in_slices_equals_one_of_the_whole_queue(query: str) -> None:
    many = [job(number, f"train{number % 97}") for number in range(5_000)]
    parts, whole = (find_jobs(many, query, at_once=size) for size in (70, len(many)))
    assert parts == whole and len(whole) == MOST_FOUND


async def test_keys_are_processed_during_a_search_of_a_long_queue(folder: Path) -> None:
    """The search runs in slices, so that further typing does not wait for an earlier query."""
    async with run_app(folder) as ui:
        ui.app.board.jobs.update({number: job(number, f"train{number}") for number in range(1, 50_001)})
        provider = Objects(ui.app.screen)
        search = provider.search("train4999")
        task, turns = asyncio.ensure_future(anext(search)), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert task.result().score and turns >= 50_000 // SLICE
        assert isinstance(search, AsyncGenerator)
        await search.aclose()


async def test_the_palette_opens_a_job_by_its_name(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("eval", "llama"):
            await ui.cluster.submit(name)
        await ui.shows("eval", "llama")
        await ui.press("ctrl+p")
        await ui.type("llam")
        await ui.shows("Job 2")
        await ui.hides("Job 1", "open the job's page at its log")
        await ui.press("enter")
        await ui.until(lambda: getattr(ui.app.screen, "key", "") == "2", "the page of job 2")


async def test_the_palette_runs_an_action_like_its_key(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("colon")
        await ui.type("can llam")
        await ui.shows("Cancel job 1")
        await ui.hides("cancel the job")
        await ui.press("enter")
        await ui.shows("$ warpdeck cancel 1")


async def test_the_palette_asks_for_a_jobs_priority(folder: Path) -> None:
    async with run_app(folder) as ui:
        for name in ("one", "two", "third"):
            await ui.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await ui.shows("third")
        await ui.press("colon")
        await ui.type("prio 3")
        await ui.shows("Priority of job 3")
        await ui.press("enter")
        await ui.shows("Priority of job 3", "nice=0")


async def test_the_palette_opens_a_node_and_a_users_jobs(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("other", user="zoe")
        await ui.until(lambda: ui.app.board.jobs, "the app has received the job")
        await ui.press("colon")
        await ui.type("gpu02")
        await ui.shows("Node gpu02")
        await ui.hides("Node gpu01")
        await ui.press("enter")
        await ui.until(
            lambda: getattr(ui.app.screen, "cursor", ("",))[0] == "gpu02", "the cursor is on gpu02"
        )
        await ui.press("colon")
        await ui.type("zoe")
        await ui.shows("User zoe")
        await ui.press("enter")
        await ui.shows("all jobs", "user:zoe", "other")
        assert ui.app.screen.query_one(FilterLine).display


async def test_the_palette_offers_no_changes_in_readonly_mode(folder: Path) -> None:
    async with run_app(folder, readonly=True) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        await ui.press("colon")
        await ui.type("cancel 1")
        await ui.shows("No matches found")


async def test_colon_q_quits_as_in_vim_and_submit_finds_the_form(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("colon")
        await ui.type("submit")
        await ui.shows("New job")
        await ui.press("escape", "colon", "q")
        await ui.until(lambda: "quit the app" in ui.text() and "Queue" in ui.text(), "both are found")
        await ui.press("enter")
        await ui.until(lambda: not ui.app.is_running or ui.app._exit, "the app ends")


async def test_a_palette_that_is_closed_before_its_search_begins_does_not_search(folder: Path) -> None:
    async with run_app(folder) as ui:
        palette = Palette()
        await ui.app.push_screen(palette)
        await ui.app.pop_screen()
        await palette._gather_commands("").wait()
        assert ui.app.is_running
