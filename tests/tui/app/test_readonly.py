"""--readonly: whatever key is pressed wherever, nothing changes, and nothing that would change it is offered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage

from warpdeck_tui.table.actions import ACTIONS, NO_KEY
from warpdeck_tui.table.bindings import command_of

WAYS = {
    "queue": ("1",),
    "nodes": ("1", "2"),
    "node": ("1", "2", "p"),
    "job": ("1", "g", "enter"),
    "history": ("1", "4"),
    "sessions": ("1", "5"),
    "admin": ("1", "6"),
}


async def go(stage: Stage, place: str) -> None:
    for key in WAYS[place]:
        await stage.press(key)
    await stage.until(lambda: getattr(stage.app.screen, "place", "") == place, place)


def test_every_place_with_changes_is_tried_here_or_opens_from_one() -> None:
    changing = {action.where for action in ACTIONS if action.changes}
    assert changing <= {*WAYS, "app"}


@pytest.mark.parametrize("place", WAYS)
async def test_nothing_changes_whatever_is_pressed(folder: Path, place: str) -> None:
    async with on_stage(folder, readonly=True) as stage:
        stage.cluster.ends["over"] = (0.0, 0)
        await stage.cluster.submit("over")
        await stage.cluster.submit("runs")
        await stage.cluster.submit("waits", hold=True)
        await stage.cluster.submit_shell()
        await stage.shows("✓ CD", "● R", "held", "interactive")
        await go(stage, place)
        before = {job.id: job for job in stage.app.board.jobs.values()}
        nodes = {name: node.state for name, node in stage.app.board.nodes.items()}
        for action in ACTIONS:
            if not action.changes or action.where not in (place, "app"):
                continue
            for key in set(action.keys.split(",")) - {NO_KEY}:
                await stage.press(key)
            await stage.app.run_action(command_of(action))
            assert stage.app.front is not None and stage.app.front.place == place, action
        shown = {hint.command for hint in stage.app.front.hints()}  # type: ignore[union-attr]
        assert not shown & {
            command_of(action) for action in ACTIONS if action.changes and action.where in (place, "app")
        }
        assert "is disabled: the app was started with --readonly" in stage.notices()
        assert not list(stage.app.chronicle)
        assert {name: node.state for name, node in stage.app.board.nodes.items()} == nodes
        assert {job.id: (job.state, job.held) for job in stage.app.board.jobs.values()} == {
            number: (job.state, job.held) for number, job in before.items()
        }


async def test_what_is_said_again_stands_once_and_three_notices_are_the_most(folder: Path) -> None:
    async with on_stage(folder, readonly=True) as stage:
        stage.app.NOTIFICATION_TIMEOUT = 600.0
        await stage.press(*"nnnnAZ")
        await stage.told("Undo is disabled")
        assert [each.message.split(" is ")[0] for each in stage.app._notifications] == [
            "New job",
            "Run again",
            "Undo",
        ]
        await stage.press(*"in")
        await stage.until(
            lambda: (
                [each.message.split(" is ")[0] for each in stage.app._notifications]
                == ["Undo", "Interactive shell", "New job"]
            ),
            "the latest three",
        )
