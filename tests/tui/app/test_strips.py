"""The lines at the top of each screen: the names of the screens, and the state of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.tui.app.app_pilot import run_app
from tests.tui.static_cluster import jobs, nodes, static_app
from tests.tui.static_site import NOW

from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.results import Delta
from warpdeck.protocol.site_rows import QosRow, ShareRow, UseRow
from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.strips import ClusterStrip, TabStrip
from warpdeck_tui.viewmodels.shell.strips import (
    TABS,
    ClusterFacts,
    TabFacts,
    cluster_line,
    idle_gpus,
    tab_line,
)
from warpdeck_tui.viewmodels.site.cluster_totals import POINT_S, POINTS, ClusterNow, Totals, Trend
from warpdeck_tui.viewmodels.site.quota import Quota, quota

KEYS = {tab.action: str(number) for number, tab in enumerate(TABS)}
BUSY = ClusterFacts(
    totals=Totals(gpus=64, held_gpus=50, cpus=100, down=1, drained=2),
    trend=(80.0, 90.0, 84.0),
    idle={"carol": 2, "bob": 1},
    down=("gpu07",),
    drained=("gpu03", "gpu04"),
    quota=Quota(6, 8),
)


def tabs(width: int, **fields: Any) -> str:
    facts = TabFacts(**{"place": "queue", "keys": KEYS, "site": "lab", "clock": "12:04", **fields})
    return "".join(part.text for part in tab_line(facts, width))


def cluster(width: int, facts: ClusterFacts = BUSY) -> str:
    return "".join(cell.text for cell in cluster_line(facts, width))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_names_of_all_screens_the_site_and_the_clock_fit_on_one_line(width: int) -> None:
    line = tabs(width)
    assert cell_len(line) == width
    for word in ("1 Queue", "2 GPUs", "3 Job", "4 History", "5 Sessions", "6 Site", "● 12:04"):
        assert word in line
    assert "warpdeck" in line
    assert "lab" in line


def test_the_current_screen_is_highlighted_and_a_click_on_a_name_opens_its_screen() -> None:
    parts = tab_line(TabFacts("node", KEYS), 100)
    assert [part.text for part in parts if part.style == "cursor"] == [" 2 GPUs "]
    assert {part.command for part in parts if "Site" in part.text} == {"app.show_admin"}


@pytest.mark.parametrize("width", [30, 80, 120])
def test_a_lost_connection_replaces_names_that_leave_no_space_for_it(width: int) -> None:
    line = tabs(width, away="The server has stopped; reconnecting")
    assert "⚠ The server has stopped" in line
    assert cell_len(line) <= width
    assert ("1 Queue" in line) == (width >= 80)


def test_the_cluster_line_names_users_and_nodes_where_there_is_space() -> None:
    line = cluster(200)
    for word in ("50/64", "84%", "idle 3: carol 2, bob 1", "down 1: gpu07", "drained 2: gpu03, gpu04"):
        assert word in line
    assert "quota 6/8, 2 left" in line


def test_the_cluster_line_drops_the_least_important_parts_first() -> None:
    line = cluster(80)
    assert cell_len(line) <= 80
    for word in ("50/64", "84%", "idle 3", "down 1", "quota 6/8"):
        assert word in line
    for width in range(14, 200):
        assert cell_len(cluster(width)) <= width
        assert "50/64" in cluster(width)


def test_without_gpus_the_cluster_line_shows_cpus_and_memory() -> None:
    totals = Totals(cpus=96, cpus_used=48, mem_bytes=4 << 30, mem_alloc_bytes=1 << 30)
    line = cluster(100, ClusterFacts(totals, trend=(40.0,)))
    assert "CPUs" in line and "48/96" in line and "1G/4G" in line and "load" in line and "40%" in line
    assert "GPU" not in line and "idle" not in line


def test_an_unknown_cluster_has_an_empty_line() -> None:
    assert cluster(100, ClusterFacts(Totals())) == ""


def test_idle_gpus_are_counted_by_user() -> None:
    assert idle_gpus(jobs(), NOW) == {"carol": 8}


def test_totals_follow_the_rows_of_nodes() -> None:
    board, fresh = ClientState(), ClusterNow()
    board.apply(Delta(nodes=nodes()))
    for row in nodes():
        fresh.put_node(row.name, None, row)
    assert board.cluster.totals == fresh.totals
    assert board.cluster.totals.util_pct is not None and 60 < board.cluster.totals.util_pct < 65
    assert (board.gpus, board.held_gpus, board.cluster.drained) == (64, 36, {"gpu08"})
    gpu = GpuRow(index=0, uuid="x", name="h100", type="h100", mem_bytes=1, job="1", util_pct=50)
    board.apply(Delta(nodes=[NodeRow(name="gpu08", state="down", gpus=[gpu])]))
    assert (board.gpus, board.cluster.down, board.cluster.drained) == (57, {"gpu08"}, set())
    board.apply(Delta(gone_nodes=[f"gpu0{number}" for number in range(1, 9)]))
    assert board.cluster.totals == Totals() and not board.cluster.down


def test_the_trend_has_one_point_for_each_interval_also_without_news() -> None:
    trend = Trend()
    for after_s in (0.0, 1.0, POINT_S, POINT_S + 1, 4 * POINT_S):
        trend.note(after_s, 100.0 + after_s)
    assert list(trend.points) == [0.0, POINT_S, POINT_S, POINT_S, 4 * POINT_S]
    trend.note(7.0, 100.0 + 2 * POINTS * POINT_S)
    assert list(trend.points) == [7.0]


def test_the_quota_is_the_limit_that_leaves_the_fewest_gpus() -> None:
    levels = [
        QosRow(name="normal", limits={"max_tres_per_user": {"gpu": 8}}),
        QosRow(name="urgent", limits={"max_tres_per_user": {"gres/gpu": 2}}),
        QosRow(name="other", limits={"max_tres_per_user": {"gpu": 1}, "max_jobs_per_user": 3}),
    ]
    uses = [
        UseRow(qos="normal", user="ann", tres={"gpu": 5}),
        UseRow(qos="urgent", user="ann", tres={"cpu": 4}),
        UseRow(qos="other", user="bob", tres={"gpu": 1}),
        UseRow(account="nlp", user="ann", tres={"gpu": 5}),
    ]
    assert quota("ann", uses=uses, qos=levels, shares=[]) == Quota(0, 2)
    shares = [ShareRow(account="nlp", user="ann", limits={"grp_tres": {"gpu": 6}}), ShareRow(account="nlp")]
    assert quota("ann", uses=uses, qos=levels, shares=shares) == Quota(5, 6)
    assert quota("eve", uses=uses, qos=[], shares=shares) is None


async def test_the_site_and_the_quota_are_requested_at_the_start() -> None:
    app = static_app()
    async with app.run_test(size=(120, 40)) as pilot:
        while app.board.site.quota is None:
            await pilot.pause()
        app.refresher.redraw()
        await pilot.pause()
        lines = [strip.text for strip in app.screen._compositor.render_strips()[:2]]
        assert " lab ● " in lines[0]
        assert "quota 6/8" in lines[1]
        app.workers.cancel_all()


async def test_all_screens_have_both_lines_and_a_frame_with_a_title(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        await ui.cluster.submit("vit")
        await ui.shows("● R", "GPUs", "1/8")
        for key, words in (("2", "nodes"), ("enter", "job 1"), ("4", "history"), ("5", "session")):
            await ui.press(key)
            await ui.until(lambda words=words: words in ui.line(2), f"{words} in the title")
            assert ui.line(2).startswith("╭") and ui.line(2).endswith("╮")
            assert "1 Queue" in ui.line(0) and "1/8" in ui.line(1)


async def test_a_click_on_a_name_opens_the_screen(folder: Path) -> None:
    async with run_app(folder) as ui:
        at = ui.line(0).index("Sessions")
        await ui.pilot.click(TabStrip, offset=(at, 0))
        await ui.shows("No sessions")
        await ui.pilot.click(ClusterStrip, offset=(2, 0))
        await ui.shows("gpu01", "gpu02")


async def test_the_job_key_says_what_to_do_without_a_job(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("3")
        await ui.shows_notification("No job to show. Press 1")
        await ui.cluster.submit("vit")
        await ui.shows("● R")
        await ui.press("3")
        await ui.shows("[Log]")


async def test_unchanged_lines_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = static_app()
    async with app.run_test(size=(120, 40)) as pilot:
        while app.board.site.quota is None:
            await pilot.pause()
        app.refresher.redraw()
        drawn: list[object] = []
        for kind in (TabStrip, ClusterStrip):
            monkeypatch.setattr(app.screen.query_one(kind), "update", lambda line, **_: drawn.append(line))
        for _ in range(3):
            app.refresher.redraw()
        assert not drawn
        app.board.away = "The server has stopped"
        app.refresher.redraw()
        assert len(drawn) == 1
        app.workers.cancel_all()


async def test_a_new_title_repaints_only_the_edge_of_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    app = static_app()
    async with app.run_test(size=(120, 40)) as pilot:
        while not app.board.ready or app.refresher.is_planned:
            await pilot.pause()
        await pilot.pause()
        frame = app.screen.query_one(".main", Frame)
        app.front.set_head("something [b]else[/b]")  # type: ignore[union-attr]
        height = sum(region.height for region in frame._repaint_regions)
        assert height == 1
        strips = app.screen._compositor.render_strips()
        assert "something [b]else[/b]" in strips[2].text
        app.workers.cancel_all()
