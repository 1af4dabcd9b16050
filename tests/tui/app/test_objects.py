"""Jobs, nodes and users in the palette."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tui.app.stage import on_stage

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.command_palette import SLICE, Objects
from warpdeck_tui.screens.shared.job_list import FilterLine
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
    verb_of,
)


def job(number: int, name: str, *, user: str = "ann", **fields: object) -> JobRow:
    return JobRow(id=number, label=str(number), array_job_id=number, name=name, user=user, **fields)  # type: ignore[arg-type]


def find_jobs(jobs: Sequence[JobRow], query: str, *, at_once: int = 2) -> list[Thing]:
    """All that a search finds that looks at so many at once."""
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


def test_jobs_stand_by_how_well_they_fit_and_the_latest_first() -> None:
    assert [thing.key for thing in find_jobs(JOBS, "12")] == ["400", "12", "121", "120"]
    assert [thing.key for thing in find_jobs(JOBS, "LLAMA")] == ["12", "121"]
    assert [thing.key for thing in find_jobs(JOBS, "lla")] == ["12", "121", "300"]
    assert find_jobs(JOBS, " ") == [] == find_jobs(JOBS, "[")


def test_a_verb_finds_the_jobs_that_it_may_be_done_with() -> None:
    assert verb_of("can llm") == ("cancel", "llm") and verb_of("hold ") == ("", "hold ")
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


def test_what_is_looked_for_may_be_named_before() -> None:
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
def test_an_action_is_found_by_its_key_and_by_words_of_its_help(query: str, score: float) -> None:
    assert (
        score_of_action(query, keys="q ^p", words="leave the app; jobs keep running", title_score=0.0)
        == score
    )
    assert score_of_action(query, keys="", words="leave", title_score=5.0) == 5.0


@pytest.mark.parametrize("query", ["l" * 10_000, "l " * 5_000, "a" * MAX_QUERY_CHARACTERS])
def test_a_long_queue_is_looked_through_quickly_whatever_is_typed(query: str) -> None:
    many = [job(number, f"train-llama-{number % 977}-{'al' * 20}") for number in range(10_000)]
    began = time.process_time()
    find_jobs(many, query, at_once=1_000)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("query", ["t", "train9", "9", "hold t"])
def test_a_queue_in_parts_gives_what_the_whole_gives(query: str) -> None:
    many = [job(number, f"train{number % 97}") for number in range(5_000)]
    parts, whole = (find_jobs(many, query, at_once=size) for size in (70, len(many)))
    assert parts == whole and len(whole) == MOST_FOUND


async def test_keys_go_before_a_search_through_a_long_queue(folder: Path) -> None:
    """What is looked at at once is a part of it: who types on is not kept waiting by what he asked for before."""
    async with on_stage(folder) as stage:
        stage.app.board.jobs.update({number: job(number, f"train{number}") for number in range(1, 50_001)})
        provider = Objects(stage.app.screen)
        search = provider.search("train4999")
        task, turns = asyncio.ensure_future(anext(search)), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert task.result().score and turns >= 50_000 // SLICE
        await search.aclose()


async def test_the_palette_opens_a_job_by_its_name(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("eval", "llama"):
            await stage.cluster.submit(name)
        await stage.shows("eval", "llama")
        await stage.press("ctrl+p")
        await stage.type("llam")
        await stage.shows("Job 2")
        await stage.hides("Job 1", "open the job's page at its log")
        await stage.press("enter")
        await stage.until(lambda: getattr(stage.app.screen, "key", "") == "2", "the page of job 2")


async def test_the_palette_does_a_verb_as_its_key_would(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("colon")
        await stage.type("can llam")
        await stage.shows("Cancel job 1")
        await stage.hides("cancel the job")
        await stage.press("enter")
        await stage.shows("$ warpdeck cancel 1")


async def test_the_palette_asks_for_a_jobs_priority(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for name in ("one", "two", "third"):
            await stage.cluster.submit(name, resources=Resources(gpus=GpuRequest(per_node=4)))
        await stage.shows("third")
        await stage.press("colon")
        await stage.type("prio 3")
        await stage.shows("Priority job 3")
        await stage.press("enter")
        await stage.shows("Priority of job 3", "nice=0")


async def test_the_palette_goes_to_a_node_and_to_a_users_jobs(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit("other", user="zoe")
        await stage.until(lambda: stage.app.board.jobs, "it is told")
        await stage.press("colon")
        await stage.type("gpu02")
        await stage.shows("Node gpu02")
        await stage.hides("Node gpu01")
        await stage.press("enter")
        await stage.until(
            lambda: getattr(stage.app.screen, "cursor", ("",))[0] == "gpu02", "the cursor is on gpu02"
        )
        await stage.press("colon")
        await stage.type("zoe")
        await stage.shows("User zoe")
        await stage.press("enter")
        await stage.shows("all jobs", "user:zoe", "other")
        assert stage.app.screen.query_one(FilterLine).display


async def test_a_readonly_palette_offers_no_change(folder: Path) -> None:
    async with on_stage(folder, readonly=True) as stage:
        await stage.cluster.submit("llama")
        await stage.shows("● R")
        await stage.press("colon")
        await stage.type("cancel 1")
        await stage.shows("No matches found")


async def test_colon_q_leaves_as_in_vim_and_submit_finds_the_form(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("colon")
        await stage.type("submit")
        await stage.shows("New job")
        await stage.press("escape", "colon", "q")
        await stage.until(
            lambda: "quit the app" in stage.text() and "Queue" in stage.text(), "both are found"
        )
        await stage.press("enter")
        await stage.until(lambda: not stage.app.is_running or stage.app._exit, "the app ends")
