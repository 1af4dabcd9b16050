"""The screen of sessions: shells and their forwarded ports. A new shell requests the resources of the last one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.style import Style
from tests.tui.app.app_pilot import ME, run_app

from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.open_terminals import shown
from warpdeck.model import JobState
from warpdeck.protocol.job_rows import ForwardRow, JobRow
from warpdeck_tui.app.left_sessions import offer_sessions
from warpdeck_tui.viewmodels.shell.replay import Written
from warpdeck_tui.viewmodels.shell.sessions import (
    glance_text,
    glance_title,
    session_rows,
    sessions,
    shell_options,
    url,
)
from warpdeck_tui.widgets.virtual_table import VirtualTable

NOW = 1_700_000_000.0
SECRET = "5ec3e7"


def shell(number: int, **fields: object) -> JobRow:
    known = {"interactive": True, "user": "ann", "state": "RUNNING", "state_short": "R", "start": NOW - 60}
    return JobRow(id=number, label=str(number), array_job_id=number, **(known | fields))  # type: ignore[arg-type]


def port(number: int, job: str) -> ForwardRow:
    return ForwardRow(
        number=number, job=job, user="ann", node="n1", port=8888, local_port=9000, since=NOW - 5
    )


def test_sessions_are_interactive_jobs_that_have_not_ended() -> None:
    jobs = [shell(1), shell(2, interactive=False), shell(3, end=NOW), shell(4, user="bob"), shell(5)]
    assert [job.id for job in sessions(jobs, user="ann")] == [5, 1]
    assert [job.id for job in sessions(jobs, user=None)] == [5, 4, 1]


def test_ports_are_listed_below_their_session_and_others_at_the_end() -> None:
    rows = session_rows([shell(5), shell(1)], [port(1, "1"), port(2, "77"), port(3, "5")], now=NOW)
    assert [key for key, _ in rows] == ["5", "forward 3", "1", "forward 1", "forward 2"]
    assert url(port(1, "1")) == "http://127.0.0.1:9000/"
    assert [cells[0].text for _, cells in rows] == ["5", "", "1", "", "77"]


def test_a_new_shell_requests_the_resources_of_the_last_one() -> None:
    assert shell_options([], user="ann", has_gpus=True) == ["--gpus=1"]
    assert shell_options([shell(1, gpus=8, user="bob")], user="ann", has_gpus=False) == []
    jobs = [shell(1, gpus=1), shell(2, gpus=2, gpu_type="h100", partition="dev", time_limit_s=5400, end=NOW)]
    assert shell_options(jobs, user="ann", has_gpus=True) == [
        "--gpus=h100:2",
        "--partition=dev",
        "--time=1:30:00",
    ]


async def test_sessions_and_ports_are_listed_and_a_forward_is_stopped(folder: Path) -> None:
    async with run_app(folder, size=(120, 30)) as ui:
        job = await ui.cluster.submit_shell()
        await ui.shows("● R")
        client = await asyncio.to_thread(SyncClient.connect, ui.cluster.paths, start=False)
        try:
            facts = {"job": str(job.id), "port": 8888, "local_port": 9000, "purpose": "jupyter"}
            facts["page"] = f"/lab?token={SECRET}"
            await asyncio.to_thread(client.begin, "forward", **facts)
            await ui.press("5")
            await ui.shows("1 session ", "1 forwarded port", "↳ jupyter", "http://127.0.0.1:9000/")
            await ui.shows("i opens a shell of the size", "w Watch")
            await ui.press("down")
            await ui.shows("http://127.0.0.1:9000/lab?token=…", "o URL")
            assert SECRET not in ui.text() + ui.notifications()
            await ui.press("o")
            await ui.shows(f"http://127.0.0.1:9000/lab?token={SECRET}")
            await ui.press("o")
            await ui.hides(SECRET)
            await ui.press("o")
            await ui.shows(SECRET)
            await ui.press("up", "down")
            await ui.hides(SECRET)
            await ui.press("y")
            await ui.shows_notification("Copied http://127.0.0.1:9000/lab?token=…")
            assert ui.app.clipboard == f"http://127.0.0.1:9000/lab?token={SECRET}"
            assert SECRET not in ui.text() + ui.notifications()
            await ui.press("X")
            await ui.shows_notification("Stopped forwarding port 9000")
            assert [done.command for done in ui.app.chronicle] == ["warpdeck forward --end 1"]
            await ui.hides("↳ jupyter")
        finally:
            await asyncio.to_thread(client.close)


async def test_a_session_is_canceled_from_its_screen(folder: Path) -> None:
    async with run_app(folder) as ui:
        job = await ui.cluster.submit_shell()
        await ui.shows("● R")
        await ui.press("5")
        await ui.shows("shell", ME)
        await ui.press("c")
        await ui.shows("y Yes")
        await ui.press("y")
        await ui.shows("No sessions. Press i to open a shell")
        assert ui.job(job).state is JobState.CANCELLED
        await ui.press("escape")
        await ui.shows("jobs of")


def test_a_sessions_preview_shows_its_last_lines_in_theme_colors() -> None:
    screen = [[Written(f"line {number}", Style(color="red"))] for number in range(20)] + [
        [],
        [Written("$ \x1b")],
    ]
    text = glance_text(screen, rows=4, styles={"ansi1": Style(color="#aa0011")})
    assert text.plain == "line 18\nline 19\n \n$ \ufffd"
    assert {str(span.style) for span in text.spans} == {"#aa0011"}
    assert glance_text([], rows=4, styles={}).plain == "(empty screen)"
    assert glance_title(shell(7, name="sh\x1b"))[0].text == "7 sh\ufffd"


async def test_the_screen_of_a_session_is_shown_without_joining_it(folder: Path) -> None:
    async with run_app(folder, size=(120, 30)) as ui:
        job = await ui.cluster.submit_shell()
        await ui.shows("● R")
        await ui.press("5")
        await ui.shows("current screen (read-only)", "$")
        await ui.press("c")
        await ui.shows("y Yes")
        await ui.press("y")
        await ui.shows("No sessions. Press i to open a shell")
        await ui.hides("current screen")
        assert ui.job(job).state is JobState.CANCELLED


async def test_no_shell_is_submitted_without_a_terminal(folder: Path) -> None:
    """In a browser, for example, the shell would hold its GPU without a user."""
    async with run_app(folder) as ui:
        await ui.press("i")
        await ui.shows_notification("Cannot open a terminal here")
        assert not ui.cluster.controller.state.jobs and not list(ui.app.chronicle)


async def test_a_session_without_a_terminal_is_offered_under_the_cursor(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("first")
        await ui.cluster.submit_shell()
        await ui.shows("2 running")
        await ui.press("g")
        with shown(ui.cluster.paths, "2"):
            offer_sessions(ui.app)
        assert not ui.notifications()
        offer_sessions(ui.app)
        await ui.shows_notification("Session 2 is waiting for you: a attaches")
        assert ui.app.screen.query_one(VirtualTable).cursor_key == "2"


async def test_several_sessions_without_a_terminal_are_counted(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_shell()
        await ui.cluster.submit_shell()
        await ui.shows("2 running")
        await ui.press("2")
        await ui.shows("gpu01")
        offer_sessions(ui.app)
        await ui.shows_notification("2 sessions are waiting for you: 5, then a attaches to 2; 5 lists all")
