"""The screen of sessions: shells and their forwarded ports; the next shell asks for what the last one had."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.style import Style
from tests.tui.app.stage import ME, on_stage

from warpdeck.client.blocking_client import SyncClient
from warpdeck.model import JobState
from warpdeck.protocol.job_rows import ForwardRow, JobRow
from warpdeck_tui.viewmodels.shell.replay import Written
from warpdeck_tui.viewmodels.shell.sessions import (
    glance_text,
    glance_title,
    session_rows,
    sessions,
    shell_options,
    url,
)

NOW = 1_700_000_000.0
SECRET = "5ec3e7"


def shell(number: int, **fields: object) -> JobRow:
    known = {"interactive": True, "user": "ann", "state": "RUNNING", "state_short": "R", "start": NOW - 60}
    return JobRow(id=number, label=str(number), array_job_id=number, **(known | fields))  # type: ignore[arg-type]


def port(number: int, job: str) -> ForwardRow:
    return ForwardRow(
        number=number, job=job, user="ann", node="n1", port=8888, local_port=9000, since=NOW - 5
    )


def test_sessions_are_the_interactive_jobs_that_have_not_ended_the_latest_first() -> None:
    jobs = [shell(1), shell(2, interactive=False), shell(3, end=NOW), shell(4, user="bob"), shell(5)]
    assert [job.id for job in sessions(jobs, user="ann")] == [5, 1]
    assert [job.id for job in sessions(jobs, user=None)] == [5, 4, 1]


def test_a_port_stands_below_its_session_and_those_of_other_jobs_at_the_end() -> None:
    rows = session_rows([shell(5), shell(1)], [port(1, "1"), port(2, "77"), port(3, "5")], now=NOW)
    assert [key for key, _ in rows] == ["5", "forward 3", "1", "forward 1", "forward 2"]
    assert url(port(1, "1")) == "http://127.0.0.1:9000/"
    assert [cells[0].text for _, cells in rows] == ["5", "", "1", "", "77"]


def test_the_next_shell_asks_for_what_the_last_one_had() -> None:
    assert shell_options([], user="ann", has_gpus=True) == ["--gpus=1"]
    assert shell_options([shell(1, gpus=8, user="bob")], user="ann", has_gpus=False) == []
    jobs = [shell(1, gpus=1), shell(2, gpus=2, gpu_type="h100", partition="dev", time_limit_s=5400, end=NOW)]
    assert shell_options(jobs, user="ann", has_gpus=True) == [
        "--gpus=h100:2",
        "--partition=dev",
        "--time=1:30:00",
    ]


async def test_sessions_and_ports_are_on_one_screen_and_a_forward_is_ended(folder: Path) -> None:
    async with on_stage(folder, size=(120, 30)) as stage:
        job = await stage.cluster.submit_shell()
        await stage.shows("● R")
        client = await asyncio.to_thread(SyncClient.connect, stage.cluster.paths, start=False)
        try:
            facts = {"job": str(job.id), "port": 8888, "local_port": 9000, "purpose": "jupyter"}
            facts["page"] = f"/lab?token={SECRET}"
            await asyncio.to_thread(client.begin, "forward", **facts)
            await stage.press("5")
            await stage.shows("1 session ", "1 forwarded port", "↳ jupyter", "http://127.0.0.1:9000/")
            await stage.shows("Key i opens a shell with --gpus=1", "w Watch")
            await stage.press("down")
            await stage.shows("http://127.0.0.1:9000/lab?token=…", "o URL")
            assert SECRET not in stage.text() + stage.notices()
            await stage.press("o")
            await stage.shows(f"http://127.0.0.1:9000/lab?token={SECRET}")
            await stage.press("o")
            await stage.hides(SECRET)
            await stage.press("o")
            await stage.shows(SECRET)
            await stage.press("up", "down")
            await stage.hides(SECRET)
            await stage.press("y")
            await stage.told("Copied http://127.0.0.1:9000/lab?token=…")
            assert stage.app.clipboard == f"http://127.0.0.1:9000/lab?token={SECRET}"
            assert SECRET not in stage.text() + stage.notices()
            await stage.press("X")
            await stage.told("Stopped forwarding port 9000")
            assert [done.command for done in stage.app.chronicle] == ["warpdeck forward --end 1"]
            await stage.hides("↳ jupyter")
        finally:
            await asyncio.to_thread(client.close)


async def test_a_session_is_ended_from_its_screen(folder: Path) -> None:
    async with on_stage(folder) as stage:
        job = await stage.cluster.submit_shell()
        await stage.shows("● R")
        await stage.press("5")
        await stage.shows("shell", ME)
        await stage.press("c")
        await stage.shows("y Yes")
        await stage.press("y")
        await stage.shows("No sessions. Press i to open a shell")
        assert stage.job(job).state is JobState.CANCELLED
        await stage.press("escape")
        await stage.shows("jobs of")


def test_a_sessions_screen_is_its_last_lines_in_the_themes_colours() -> None:
    screen = [[Written(f"line {number}", Style(color="red"))] for number in range(20)] + [
        [],
        [Written("$ \x1b")],
    ]
    text = glance_text(screen, rows=4, styles={"ansi1": Style(color="#aa0011")})
    assert text.plain == "line 18\nline 19\n \n$ \ufffd"
    assert {str(span.style) for span in text.spans} == {"#aa0011"}
    assert glance_text([], rows=4, styles={}).plain == "(empty screen)"
    assert glance_title(shell(7, name="sh\x1b"))[0].text == "7 sh\ufffd"


async def test_the_screen_of_a_session_is_looked_at_without_joining_it(folder: Path) -> None:
    async with on_stage(folder, size=(120, 30)) as stage:
        job = await stage.cluster.submit_shell()
        await stage.shows("● R")
        await stage.press("5")
        await stage.shows("current screen (read-only)", "$")
        await stage.press("c")
        await stage.shows("y Yes")
        await stage.press("y")
        await stage.shows("No sessions. Press i to open a shell")
        await stage.hides("current screen")
        assert stage.job(job).state is JobState.CANCELLED


async def test_where_no_terminal_can_be_lent_no_shell_is_begun(folder: Path) -> None:
    """As in a browser: it would hold its GPU with nobody there."""
    async with on_stage(folder) as stage:
        await stage.press("i")
        await stage.told("Cannot open a terminal here")
        assert not stage.cluster.controller.state.jobs and not list(stage.app.chronicle)
