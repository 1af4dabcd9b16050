"""The number of keys that frequent tasks need, counted from the first screen of the app.

The last part of one task is tested in a real terminal: `tests/e2e/app/test_tui_hang_up.py` attaches to a session that lost
its terminal, with one key.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.tui.app.app_pilot import NAMES, AppPilot, run_app
from tests.tui.app.test_idle_gpus import job
from tests.tui.app.test_submit import SCRIPT, commit_all

from warpdeck.model import GpuRequest, Resources
from warpdeck.protocol.results import Delta
from warpdeck_tui.app.left_sessions import offer_sessions
from warpdeck_tui.widgets.virtual_table import VirtualTable

WIDE = (140, 40)


class Keys:
    """Presses keys and counts them."""

    def __init__(self, ui: AppPilot) -> None:
        self._ui = ui
        self.count = 0

    async def press(self, *keys: str) -> None:
        self.count += len(keys)
        await self._ui.press(*(NAMES.get(key, key) for key in keys))


async def submit_script(ui: AppPilot) -> None:
    """Submit the only script of the folder, as preparation."""
    await ui.press("n")
    await ui.shows("New job", "Enter Submit")
    await ui.press("enter")


async def test_the_last_job_is_submitted_with_another_number_of_gpus_in_three_keys(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder) as ui:
        await submit_script(ui)
        await ui.shows_notification("Submitted job 1")
        keys = Keys(ui)
        await keys.press("n", "4", "enter")
        await ui.shows_notification("Submitted job 2")
        assert keys.count <= 4
        [asked] = [
            each.request.resources.gpus for each in ui.cluster.controller.state.jobs.values() if each.id == 2
        ]
        assert asked is not None and asked.total == 4


async def test_the_users_of_idle_gpus_are_found_in_two_keys(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.app.board.apply(
            Delta(jobs=[job(900, gpus=2, now=time.time()), job(901, util=90, now=time.time())])
        )
        keys = Keys(ui)
        await keys.press("2", "I")
        await ui.shows("2 GPUs of 1 job are idle", "900", "bob", "sleeper")
        assert keys.count <= 2


async def test_the_cursor_is_on_the_session_that_waits_so_that_one_key_attaches(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("first")
        await ui.cluster.submit_shell()
        await ui.shows("2 running")
        offer_sessions(ui.app)
        await ui.shows_notification("Session 2 is waiting for you: a attaches")
        assert ui.app.screen.query_one(VirtualTable).cursor_key == "2"
        keys = Keys(ui)
        await keys.press("a")
        await ui.shows_notification("Cannot open a terminal here")  # Pilot has no terminal to lend
        assert keys.count <= 2


async def test_thirty_of_38_pending_tasks_are_canceled_in_six_keys(folder: Path) -> None:
    async with run_app(folder, size=WIDE) as ui:
        await ui.cluster.submit_array(tasks=46, at_once=8)
        await ui.shows("8 R 38 PD")
        keys = Keys(ui)
        await keys.press("c", "t", "1", "6", "-", "enter")
        await ui.shows_notification("Canceled job 1_[16-45]")
        await ui.shows("8 running, 8 pending")
        assert keys.count <= 6


async def test_the_log_of_the_job_under_the_cursor_is_one_key_away(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit("llama")
        await ui.shows("● R")
        keys = Keys(ui)
        await keys.press("l")
        await ui.shows("job 1", "[Log]", "gpu01: llama on 1 x NVIDIA H100")
        assert keys.count == 1


async def test_the_reason_of_a_pending_job_is_one_key_away_and_needs_none_on_a_wide_terminal(
    folder: Path,
) -> None:
    for size, needed in (((80, 24), ["enter"]), (WIDE, [])):
        async with run_app(folder, size=size) as ui:
            for name in ("big-1", "big-2", "big-3"):
                await ui.cluster.submit(
                    name, resources=Resources(gpus=GpuRequest(per_node=4)), time_limit_s=3600
                )
            await ui.shows("big-3", "◌ PD")
            await ui.press("G")
            keys = Keys(ui)
            await keys.press(*needed)
            await ui.until(
                lambda ui=ui: "needs 4 GPUs on one node" in " ".join(ui.text().replace("│", " ").split()),
                "the whole reason",
            )
            assert keys.count <= 1


async def test_a_node_is_drained_in_three_keys_and_its_reason(folder: Path) -> None:
    async with run_app(folder) as ui:
        keys = Keys(ui)
        await keys.press("2", "d")
        await ui.shows("Reason for draining gpu01")
        await keys.press(*"fan", "enter")
        await ui.until(lambda: ui.app.board.nodes["gpu01"].state == "drained", "it is drained")
        assert keys.count - len("fan") <= 3


async def test_the_code_of_a_job_is_compared_with_its_folder_in_two_keys(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 2\n")
    commit_all(work)
    async with run_app(folder, size=WIDE) as ui:
        await submit_script(ui)
        await ui.shows_notification("Submitted job 1")
        (work / "model.py").write_text("layers = 3\n")
        keys = Keys(ui)
        await keys.press("enter", "D")
        await ui.shows("job 1 (-) to its folder now (+)", "- layers = 2", "+ layers = 3")
        assert keys.count <= 2


async def test_the_code_of_two_jobs_is_compared_in_four_keys(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 2\n")
    commit_all(work)
    async with run_app(folder, size=WIDE) as ui:
        for layers in (2, 3):
            (work / "model.py").write_text(f"layers = {layers}\n")
            await submit_script(ui)
            await ui.shows_notification(f"Submitted job {layers - 1}")
        await ui.shows("2 running")
        await ui.press("g")
        keys = Keys(ui)
        await keys.press("enter", "=")
        await ui.shows("Select a job to compare with")
        await keys.press("enter")
        await ui.shows("job 2 (-) to job 1 (+)", "- layers = 3", "+ layers = 2")
        assert keys.count <= 4
