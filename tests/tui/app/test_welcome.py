"""The welcome page of a new home: its content, when it is shown, and its keys."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.data.surroundings import has_slurm, ssh_hosts
from warpdeck_tui.screens import welcome
from warpdeck_tui.screens.forms.submit import NewJob
from warpdeck_tui.screens.node_add import NodeAdd
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.welcome import WelcomeScreen
from warpdeck_tui.viewmodels.shell.welcome import WelcomeFacts, welcome_lines

KEYS = {"new_job": "n", "shell": "i", "add": "A", "demo": "d", "close": "Esc"}
GIB = 1 << 30


def node(gpus: int = 0, **fields: object) -> NodeRow:
    rows = [
        GpuRow(
            index=at,
            uuid=f"GPU-{at}",
            name="NVIDIA H100 80GB HBM3",
            type="h100",
            mem_bytes=80 * GIB,
            util_pct=12,
            mem_used_bytes=3 * GIB,
            temp_c=45,
        )
        for at in range(gpus)
    ]
    base: dict[str, object] = {"name": "gpu01", "state": "idle", "cpus": 32, "mem_bytes": 256 * GIB}
    return NodeRow(**{**base, "gpus": rows, **fields})  # type: ignore[arg-type]


def page(
    *nodes: NodeRow, hosts: tuple[str, ...] = (), slurm: bool = False, width: int = 78, height: int = 19
) -> str:
    lines = welcome_lines(WelcomeFacts(nodes, hosts, slurm, KEYS), width, height)
    return "\n".join("".join(cell.text for cell in line) for line in lines)


def test_the_page_shows_the_machine_the_next_steps_and_what_was_found() -> None:
    text = page(node(2, cpu_pct=3.0), hosts=("a100-1", "a100-2"), slurm=True)
    for words in (
        "gpu01  32 CPUs, 3% busy   256G memory",
        " 1 NVIDIA H100 80GB HBM3",
        "12%    3/80G  45°C",
        "n  Submit a job",
        "A  Add a node",
        "d  Look at a demo",
        "2 hosts in ~/.ssh/config",
        "a100-1, a100-2",
        "warpdeck --engine slurm",
    ):
        assert words in text
    assert "Found" not in page(node())
    assert "None yet" in page()
    assert "no GPU. Jobs use its CPUs" in page(node())
    assert "no GPU: NVML is missing" in page(node(gpu_error="NVML is missing"))


@pytest.mark.parametrize(("width", "height"), [(40, 12), (78, 19), (118, 35), (198, 45)])
def test_the_page_fits_the_width(width: int, height: int) -> None:
    hosts = tuple(f"a-host-with-a-long-name-{at}" for at in range(30))
    text = page(node(20), hosts=hosts, slurm=True, width=width, height=height)
    if width >= 78:
        assert all(len(line) <= width for line in text.splitlines())
    assert "4 more GPUs" in text
    assert ("In a shell" in text) == (width >= 130)


def test_hosts_of_the_ssh_configuration_are_names_without_patterns(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        'Host *\n  User x\nhost a100-1 a100-? !bad\nHost=dgx\nHost "quoted" github.com\n  HostName h\nMatch host y\n'
    )
    assert ssh_hosts(str(config)) == ("a100-1", "dgx", "quoted")
    assert ssh_hosts(str(tmp_path / "missing")) == ()
    assert ssh_hosts(str(tmp_path)) == ()
    config.write_text("".join(f"Host n{at}\n" for at in range(10_000)))
    assert len(ssh_hosts(str(config))) == 200


def test_our_own_scripts_are_no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_slurm()
    for name in ("sinfo", "squeue"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    assert has_slurm()
    (tmp_path / "sinfo").write_text("#!/bin/sh\n# warpdeck\n")
    assert not has_slurm()


async def offered(ui: AppPilot) -> None:
    """Wait until the app has decided whether it shows the page."""
    await ui.until(
        lambda: not any(each.group == "welcome" for each in ui.app.workers), "the page is shown or not"
    )
    await ui.settle()


@asynccontextmanager
async def new_home(folder: Path, **options: object) -> AsyncIterator[AppPilot]:
    """Run the app on a cluster with one node and without any job."""
    async with run_app(folder, nodes=1, **options) as ui:  # type: ignore[arg-type]
        yield ui


async def test_a_new_home_shows_the_page_until_a_job_appears(folder: Path) -> None:
    async with new_home(folder) as ui:
        await ui.shows("Welcome to warpdeck", "This machine", "No jobs. Press n to submit one")
        await ui.press("2")
        await ui.shows("gpu01")
        await ui.press("1")
        await ui.shows("Welcome to warpdeck")
        await ui.press("n")
        await ui.until(lambda: isinstance(ui.app.screen, NewJob), "the form")
        await ui.press("escape")
        await ui.shows("Welcome to warpdeck")
        await ui.cluster.submit("llama")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")
        await ui.shows("llama")


async def test_the_page_never_comes_back_after_the_user_has_closed_it(folder: Path) -> None:
    async with new_home(folder) as ui:
        await ui.shows("Welcome to warpdeck")
        await ui.press("A")
        await ui.until(lambda: isinstance(ui.app.screen, NodeAdd), "the dialog")
        await ui.press("escape", "escape")
        await ui.until(lambda: isinstance(ui.app.screen, QueueScreen), "the queue")
    async with new_home(folder) as ui:
        await ui.shows("No jobs. Press n to submit one")
        ui.app.offer_welcome()
        await offered(ui)
        assert isinstance(ui.app.screen, QueueScreen)


async def test_a_home_with_finished_jobs_does_not_show_the_page(folder: Path) -> None:
    async with new_home(folder) as ui:
        ui.cluster.ends["over"] = (0.0, 0)
        job = await ui.cluster.submit("over")
        await ui.shows("over", "exit 0")
        ui.app.board.apply(Delta(gone_jobs=[job.id]))
        ui.app.offer_welcome()
        await offered(ui)
        assert isinstance(ui.app.screen, QueueScreen)


async def test_the_page_is_only_shown_in_place_of_the_queue(folder: Path) -> None:
    async with new_home(folder, at=("gpus", "")) as ui:
        await ui.shows("gpu01")
        assert not ui.app._welcome.is_possible
        await ui.press("1")
        await ui.shows("Welcome to warpdeck")


async def test_the_page_of_a_readonly_app_changes_nothing(folder: Path) -> None:
    async with new_home(folder, readonly=True) as ui:
        await ui.shows("Welcome to warpdeck")
        front = ui.app.front
        assert front is not None
        assert not {"screen.add", "screen.new_job"} & {hint.command for hint in front.hints()}
        for key in ("n", "A", "i"):
            await ui.press(key)
            assert isinstance(ui.app.screen, WelcomeScreen)
        await ui.shows_notification("Add node is disabled: the app was started with --readonly")


async def test_without_a_terminal_the_demo_says_where_it_runs(folder: Path) -> None:
    async with new_home(folder) as ui:
        await ui.shows("Welcome to warpdeck")
        await ui.press("d")
        await ui.shows_notification("Cannot open a terminal here")


def test_the_exit_code_of_the_demo_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(welcome, "DEMO", (sys.executable, "-c", "exit(3)"))
    assert welcome.run_demo() == 3
    monkeypatch.setattr(welcome, "DEMO", ("/nowhere/python",))
    with pytest.raises(UserError, match="Cannot start the demo"):
        welcome.run_demo()
