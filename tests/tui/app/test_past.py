"""The map of GPUs as it was at a moment."""

from __future__ import annotations

import time
from pathlib import Path

from tests.tui.app.stage import on_stage

from warpdeck.api.rows import GpuRow, HeldRow, NodeRow
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.viewmodels.past import MOST_S, STEP_S, as_it_was, moved

NOW = 1_000_000_000.0 + 400


def test_a_key_goes_to_the_round_ten_minutes_before_and_after_it() -> None:
    first = moved(None, -1, NOW)
    assert first is not None and first % STEP_S == 0 and 0 < NOW - first <= STEP_S
    second = moved(first, -1, NOW)
    assert second == first - STEP_S
    assert moved(second, 1, NOW) == first
    assert moved(first, 1, NOW) is None
    assert moved(NOW - MOST_S, -1, NOW) == (NOW - MOST_S) // STEP_S * STEP_S


def test_the_jobs_of_then_hold_the_gpus_and_no_reading_of_now_is_shown() -> None:
    gpus = [GpuRow(index=at, uuid="", name="", type="", mem_bytes=1, util_pct=9, job="8") for at in (0, 1)]
    node = NodeRow(name="a", state="drained", reason="fan", gpus=gpus, jobs=["8"], cpu_pct=5.0)
    held = [HeldRow(id=3, label="3_1", user="ann", gpus_held={"a": [1], "gone": [0]})]
    (then,) = as_it_was([node], held)
    assert [(gpu.job, gpu.job_user, gpu.util_pct) for gpu in then.gpus] == [
        ("", "", None),
        ("3_1", "ann", None),
    ]
    assert (then.state, then.reason, then.jobs, then.cpu_pct) == ("mixed", "", ["3_1"], None)


async def test_the_map_goes_back_in_time_and_to_now(folder: Path) -> None:
    async with on_stage(folder) as stage:
        job = await stage.cluster.submit("held")
        await stage.press("2")
        await stage.shows("1 of 8 GPUs held", "< Earlier")
        await stage.press("less_than_sign")
        await stage.shows("as it was on", "0 of 8 GPUs held")
        assert "Drain" not in stage.line(-1)
        await stage.press("d", "escape")
        await stage.hides("as it was on")
        await stage.shows("1 of 8 GPUs held", "d Drain")
        assert [each.label for each in await stage.app.core.held_at(time.time())] == [str(job.id)]


async def test_keys_that_come_faster_than_the_past_all_count(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("2")
        await stage.shows("< Earlier")
        screen = stage.app.screen
        assert isinstance(screen, NodesScreen)
        now = time.time()
        screen.action_earlier()
        screen.action_earlier()
        screen.action_earlier()
        screen.action_later()
        await stage.shows("as it was on")
        await stage.until(lambda: screen._at is not None and screen._at < now - STEP_S, "two steps back")


async def test_what_has_ended_is_there_with_its_gpus(folder: Path) -> None:
    async with on_stage(folder) as stage:
        stage.cluster.ends["quick"] = (0.01, 0)
        job = await stage.cluster.submit("quick")
        await stage.shows("✓ CD")
        began = stage.app.board.jobs[job.id].start
        assert began is not None
        (held,) = await stage.app.core.held_at(began)
        assert (held.id, held.gpus_held) == (job.id, {"gpu01": [0]})
