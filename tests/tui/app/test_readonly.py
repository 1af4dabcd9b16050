"""--readonly: no key on any screen changes anything, and actions that change something are not offered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app

from warpdeck_tui.table.actions import ACTIONS, NO_KEY
from warpdeck_tui.table.bindings import command_of

KEYS_TO = {
    "overview": ("1", "0"),
    "queue": ("1",),
    "nodes": ("1", "2"),
    "node": ("1", "2", "p"),
    "job": ("1", "g", "enter"),
    "history": ("1", "4"),
    "sessions": ("1", "5"),
    "admin": ("1", "6"),
    "runs": ("1", "B"),
}


async def open_screen(ui: AppPilot, place: str) -> None:
    for key in KEYS_TO[place]:
        await ui.press(key)
    await ui.until(lambda: getattr(ui.app.screen, "place", "") == place, place)


def test_every_context_with_changing_actions_is_covered() -> None:
    changing = {action.where for action in ACTIONS if action.changes}
    assert changing <= {*KEYS_TO, "app", "welcome"}, "the page of a new home has a test of its own"


@pytest.mark.parametrize("place", KEYS_TO)
async def test_no_key_changes_anything(folder: Path, place: str) -> None:
    async with run_app(folder, readonly=True) as ui:
        ui.cluster.ends["over"] = (0.0, 0)
        await ui.cluster.submit("over")
        await ui.cluster.submit("runs")
        await ui.cluster.submit("waits", hold=True)
        await ui.cluster.submit_shell()
        await ui.shows("✓ CD", "● R", "held", "interactive")
        await open_screen(ui, place)
        before = {job.id: job for job in ui.app.board.jobs.values()}
        nodes = {name: node.state for name, node in ui.app.board.nodes.items()}
        for action in ACTIONS:
            if not action.changes or action.where not in (place, "app"):
                continue
            for key in set(action.keys.split(",")) - {NO_KEY}:
                await ui.press(key)
            await ui.app.run_action(command_of(action))
            assert ui.app.front is not None and ui.app.front.place == place, action
        shown = {hint.command for hint in ui.app.front.hints()}  # type: ignore[union-attr]
        assert not shown & {
            command_of(action) for action in ACTIONS if action.changes and action.where in (place, "app")
        }
        assert "is disabled: the app was started with --readonly" in ui.notifications()
        assert not list(ui.app.chronicle)
        assert {name: node.state for name, node in ui.app.board.nodes.items()} == nodes
        assert {job.id: (job.state, job.held) for job in ui.app.board.jobs.values()} == {
            number: (job.state, job.held) for number, job in before.items()
        }


async def test_repeated_notifications_appear_once_and_at_most_three(folder: Path) -> None:
    async with run_app(folder, readonly=True) as ui:
        ui.app.NOTIFICATION_TIMEOUT = 600.0
        await ui.press(*"nnnnAZ")
        await ui.shows_notification("Undo is disabled")
        assert [each.message.split(" is ")[0] for each in ui.app._notifications] == [
            "New job",
            "Run again",
            "Undo",
        ]
        await ui.press(*"in")
        await ui.until(
            lambda: (
                [each.message.split(" is ")[0] for each in ui.app._notifications]
                == ["Undo", "Interactive shell", "New job"]
            ),
            "the latest three",
        )
