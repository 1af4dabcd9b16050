"""The map of GPUs at a past time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app

from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.node_rows import GpuRow, PastNodeRow, ProcessRow, SharerRow
from warpdeck_tui.screens.nodes import NodesScreen
from warpdeck_tui.viewmodels.nodes.gpu_map import gpu_lines, legend
from warpdeck_tui.viewmodels.nodes.nodes import gpu_detail
from warpdeck_tui.viewmodels.nodes.past_nodes import FINE_S, MOST_S, STEP_S, moment_words, moved, past_lines

NOW = 1_000_000_000.0 + 400


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def node(name: str, **fields: object) -> PastNodeRow:
    return PastNodeRow(name=name, **fields)  # type: ignore[arg-type]


def test_a_key_moves_to_the_previous_or_next_ten_minutes() -> None:
    first = moved(None, -1, NOW)
    assert first is not None and first % STEP_S == 0 and 0 < NOW - first <= STEP_S
    second = moved(first, -1, NOW)
    assert second == first - STEP_S
    assert moved(second, 1, NOW) == first
    assert moved(first, 1, NOW) is None
    assert moved(NOW - MOST_S, -1, NOW) == (NOW - MOST_S) // STEP_S * STEP_S


def test_the_finer_key_moves_by_one_minute() -> None:
    first = moved(None, -1, NOW, step_s=FINE_S)
    assert first is not None and first % 60 == 0 and 0 < NOW - first <= 60
    assert moved(first, -1, NOW, step_s=FINE_S) == first - 60


NIGHT = NOW - 5 * 3600


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("a", step_s=60.0)], "at Sat 20:53:20, 5h00 ago, averages over 60 s"),
        ([node("a", step_s=1.0), node("b", step_s=10.0)], "averages over 1 s and 10 s"),
        (
            [node("a", step_s=1.0), node("b", unknown="b does not answer")],
            "1 of 2 nodes unknown, averages over 1 s",
        ),
        ([node("a", unknown="nothing was measured then")], "ago, no data"),
    ],
)
def test_the_header_shows_the_time_the_resolution_and_unknown_nodes(
    nodes: Sequence[PastNodeRow], words: str
) -> None:
    assert words in moment_words(nodes, NIGHT, NOW)


def test_a_time_more_than_a_week_ago_has_a_date() -> None:
    assert "at Sat 25 Aug 20:53:20, 14d" in moment_words([], NIGHT - 14 * 86_400, NOW)


def test_the_known_data_of_a_past_node_are_described() -> None:
    def described(row: PastNodeRow) -> str:
        return " ".join(cell.text.strip() for line in past_lines(row, NOW) for cell in line)

    assert described(node("a", begin=NIGHT, step_s=10.0)) == "measured averages over 10 s from 20:53:20"
    silent = node("a", unknown="a does not answer: no link", since=NOW - 600)
    assert described(silent) == "unknown a does not answer: no link; data starts at Sun 01:43:20"
    half = node("a", begin=NIGHT, step_s=10.0, untold=["whether it was drained or down"])
    assert (
        described(half) == "measured averages over 10 s from 20:53:20 unknown whether it was drained or down"
    )


def test_unknown_past_measurements_are_shown_as_unknown() -> None:
    gpus = [
        GpuRow(
            index=0,
            uuid="",
            name="",
            type="",
            mem_bytes=100,
            util_pct=40,
            mem_used_bytes=70,
            power_w=300.0,
            temp_c=61,
        ),
        GpuRow(index=1, uuid="", name="", type="", mem_bytes=100, job="7"),
    ]
    row = node("a", state="mixed", gpus=gpus)
    shown = {
        metric: [cell[1].strip() for cell in gpu_lines([row], metric)[0][1]]
        for metric in ("util", "memory", "power", "temp", "owner", "job")
    }
    assert shown == {
        "util": ["40%", "?"],
        "memory": ["70%", "?"],
        "power": ["300W", "?"],
        "temp": ["61°", "?"],
        "owner": ["·", "?"],
        "job": ["·", "7"],
    }
    assert "at that time" in legend("util", past=True) and "at that time" in legend("owner", past=True)


@pytest.mark.parametrize(
    ("state", "step_s", "shown"),
    [("idle", 60.0, "40%!"), ("down", 60.0, "40%!"), ("down", None, "!"), ("absent", None, "!")],
)
def test_an_unavailable_gpu_is_marked_and_keeps_its_measurements(
    state: str, step_s: float | None, shown: str
) -> None:
    gpu = GpuRow(index=0, uuid="", name="", type="", mem_bytes=100, util_pct=40, blocked="drained: ECC")
    row = node("a", state=state, step_s=step_s, gpus=[gpu])
    assert gpu_lines([row], "util")[0][1][0][1].strip() == shown
    assert "!" in legend("util", past=True) and "other" in legend("owner", past=True)


def test_all_users_of_a_shared_gpu_are_named() -> None:
    gpu = GpuRow(
        index=0,
        uuid="",
        name="H100",
        type="",
        mem_bytes=100,
        job="7",
        job_user="ann",
        sharers=[
            SharerRow(job="7", user="ann", share_pct=50),
            SharerRow(job="9", user="bob", share_pct=30),
        ],
        processes=[ProcessRow(pid=0, user="eve", command="", mem_bytes=3 << 30)],
    )
    details = [
        " ".join("".join(cell.text for cell in line).split()) for line in gpu_detail(node("a", gpus=[gpu]), 0)
    ]
    assert details[-3:] == ["shared by 7 of ann (50 %)", "9 of bob (30 %)", "eve 3G no job"]


async def test_the_map_goes_back_in_time_in_each_mode_and_returns(folder: Path) -> None:
    async with run_app(folder) as ui:
        job = await ui.cluster.submit("held")
        await ui.press("2")
        await ui.shows("1 of 8 GPUs allocated", "< Earlier")
        await ui.press("less_than_sign")
        await ui.shows("ago,", "at that time:")
        screen = ui.app.screen
        assert isinstance(screen, NodesScreen)
        screen._look_at(time.time() - 7200)
        await ui.shows("ago,", "no data", "gpu01", "absent")
        assert "Drain" not in ui.line(-1)
        await ui.press("m", "m", "m")
        await ui.shows("color: job")
        await ui.press("d", "escape")
        await ui.hides("ago,")
        await ui.shows("1 of 8 GPUs allocated", "d Drain")
        began = ui.app.board.jobs[job.id].start
        assert began is not None
        screen._look_at(began)
        await ui.shows("averages over 1 s", "1 of 8", "measured")


async def test_fast_keys_all_count_but_cause_few_requests(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        await ui.shows("< Earlier")
        screen = ui.app.screen
        assert isinstance(screen, NodesScreen)
        now, requested = time.time(), []
        nodes_at = ui.app.core.nodes_at

        async def counted(at: float) -> list[PastNodeRow]:
            requested.append(at)
            return await nodes_at(at)

        ui.app.core.nodes_at = counted  # type: ignore[method-assign]
        for _ in range(30):
            screen.action_earlier()
        screen.action_later()
        wanted = screen._wanted_at
        assert wanted is not None and 28 * STEP_S <= now - wanted < 30 * STEP_S
        await ui.until(lambda: screen._at == wanted, "the time that was selected last")
        await ui.shows("ago,")
        assert len(requested) <= 2, "times that were passed over are not requested"


async def test_the_map_goes_to_an_entered_time(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("2")
        await ui.shows("< Earlier")
        await ui.press("a")
        await ui.shows("Go to time")
        await ui.type("now+1hour")
        await ui.press("enter")
        await ui.shows("is in the future")
        await ui.press("ctrl+u")
        await ui.type("now-2hours")
        await ui.press("enter")
        await ui.shows("ago,")
        screen = ui.app.screen
        assert isinstance(screen, NodesScreen) and screen._at is not None
        named = screen._at
        assert 7190 < time.time() - named < 7300
        screen.action_copy_command()
        await ui.until(
            lambda: ui.app.clipboard == f"warpdeck node show gpu01 --at {moment_text(named)}", "copied"
        )
        await ui.press("comma")
        await ui.until(lambda: screen._at == (named - 0.001) // 60 * 60, "the minute before")
        await ui.press("full_stop")
        await ui.until(lambda: screen._at == (named - 0.001) // 60 * 60 + 60, "the minute after")


async def test_an_ended_job_is_shown_with_its_past_gpus(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.cluster.ends["quick"] = (0.01, 0)
        job = await ui.cluster.submit("quick")
        await ui.shows("✓ CD")
        began = ui.app.board.jobs[job.id].start
        assert began is not None
        then = await ui.app.core.nodes_at(began)
        assert [[gpu.job for gpu in row.gpus] for row in then] == [[str(job.id), "", "", ""], [""] * 4]
