"""The app over a scheduler other than our own: it cannot do everything, and its data have an age and no GPU readings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.tui.app.app_pilot import AppPilot, run_app
from tests.tui.app.other_scheduler import IMPOSSIBLE, OtherScheduler
from tests.tui.app.test_readonly import open_screen

from warpdeck.model import PtySize
from warpdeck.ports.engine import Action
from warpdeck.protocol.job_rows import GpuUse, JobDetail, JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.site_rows import EngineRow, SiteGatewayRow
from warpdeck_tui.plain import PlainRequest, screen_text
from warpdeck_tui.table.actions import ACTIONS
from warpdeck_tui.table.actions.requests import REQUESTS, requests_of
from warpdeck_tui.table.bindings import command_of
from warpdeck_tui.viewmodels import Line
from warpdeck_tui.viewmodels.job_page.gpus import Sources, gpu_page
from warpdeck_tui.viewmodels.jobs.environment import environment_lines
from warpdeck_tui.viewmodels.jobs.job_columns import job_row
from warpdeck_tui.viewmodels.nodes.gpu_map import MapContext, all_unmeasured, gpu_cell, legend
from warpdeck_tui.viewmodels.nodes.node_charts import NodeCurves
from warpdeck_tui.viewmodels.nodes.node_page import Missing, page
from warpdeck_tui.viewmodels.nodes.nodes import gpu_detail, node_lines
from warpdeck_tui.viewmodels.shell.scheduler_line import scheduler_lines
from warpdeck_tui.viewmodels.site.idle_gpus import idle_words, unmeasured_words

NOW = 1_000_000.0
SLURM = EngineRow(name="slurm", version="24.11.5", cluster="hpc1", read_at=NOW - 25.0, requests_a_minute=6.0)
PROBLEM = (
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure). "
    "Ask the administrators whether slurmctld runs"
)
NO_READINGS = "no readings"
RUNNING = JobRow(
    id=7, label="7", array_job_id=7, state="RUNNING", state_short="R", gpus=2, start=NOW - 3600.0
)


def shown(width: int, **fields: object) -> list[str]:
    return texts(scheduler_lines(replace(SLURM, **fields), now=NOW, width=width))


def styles(**fields: object) -> set[str]:
    row = EngineRow(**{name: getattr(SLURM, name) for name in SLURM.__struct_fields__} | fields)
    return {
        cell.style for line in scheduler_lines(row, now=NOW, width=80) for cell in line if "read" in cell.text
    }


# ---- The table of requests


def test_every_row_of_the_table_names_actions_and_requests_that_exist() -> None:
    known = {action.id for action in ACTIONS} | {f"{action.where}.{action.id}" for action in ACTIONS}
    assert {key.partition(":")[0] for key in REQUESTS} <= known
    tags = {tag for needed in REQUESTS.values() for tag in needed}
    assert tags <= set(Action)


def test_the_most_specific_row_of_the_table_counts() -> None:
    assert requests_of("queue", "cancel") == requests_of("sessions", "cancel") == ("cancel",)
    assert requests_of("node", "drain") == ("node_drain",)
    assert requests_of("node", "drain", "resume") == ("node_resume",)
    assert requests_of("nodes", "remove") == ("node_rm",)
    assert requests_of("fill", "remove") == requests_of("queue", "help") == ()


def test_every_changing_action_of_a_screen_needs_a_request() -> None:
    without = {f"{action.where}.{action.id}" for action in ACTIONS if action.changes} - {
        f"{action.where}.{action.id}"
        for action in ACTIONS
        for variant in ("", "reservations")
        if requests_of(action.where, action.id, variant)
    }
    assert without == {"app.start_controller", "app.undo", "sessions.end_forward"}


# ---- The line about the scheduler


def test_the_line_has_name_age_and_rate() -> None:
    assert shown(80) == [" Slurm 24.11 · hpc1   read 25 s ago   6 requests/min"]
    assert shown(80, read_at=NOW - 3) == [" Slurm 24.11 · hpc1   6 requests/min"]
    assert shown(80, read_at=NOW - 250) == [" Slurm 24.11 · hpc1   read 4 min ago   6 requests/min"]
    assert shown(80, read_at=None, requests_a_minute=1.0) == [
        " Slurm 24.11 · hpc1   not read yet   1 request/min"
    ]
    assert shown(80, cluster="", version="", requests_a_minute=None) == [" Slurm   read 25 s ago"]


def test_the_line_tells_that_the_answers_come_from_the_site_gateway() -> None:
    site = SiteGatewayRow(owner="svc", requests_a_minute=4.0)
    own = [" Slurm 24.11 · hpc1   read 25 s ago   0 requests/min"]
    assert shown(80, requests_a_minute=0.0, site_gateway=site) == [
        " Slurm 24.11 · hpc1   read 25 s ago   site gateway, 4 requests/min"
    ]
    lost = SiteGatewayRow(owner="svc", requests_a_minute=4.0, problem="it does not run")
    assert shown(80, requests_a_minute=0.0, site_gateway=lost) == own


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (52, " Slurm 24.11 · hpc1   read 25 s ago   6 requests/min"),
        (51, " Slurm 24.11 · hpc1   read 25 s ago"),
        (34, " Slurm 24.11   read 25 s ago"),
        (27, " Slurm   read 25 s ago"),
        (5, " Slurm   read 25 s ago"),
    ],
)
def test_a_narrow_line_leaves_out_the_least_important_part_first(width: int, line: str) -> None:
    assert shown(width) == [line]


def test_old_data_and_a_problem_are_warnings() -> None:
    assert styles() == {"muted"}
    assert styles(read_at=NOW - 181) == {"warn"}
    assert styles(problem="slurmctld is busy") == {"warn"}


def test_a_short_problem_stays_on_the_line_and_a_long_one_has_its_own() -> None:
    assert shown(100, problem="slurmctld is busy. Wait") == [
        " Slurm 24.11 · hpc1   read 25 s ago   slurmctld is busy. Wait   6 requests/min"
    ]
    first, second = shown(80, problem=PROBLEM)
    assert first == " Slurm 24.11 · hpc1   read 25 s ago   6 requests/min"
    assert len(second) <= 80 and second.startswith(" slurm_load_jobs error:")
    assert second.endswith("… Ask the administrators whether slurmctld runs")
    assert len(shown(40, problem="x" * 100)[1]) == 40
    with_colon = f"squeue: {'x' * 100}: see the log of slurmctld"
    assert shown(60, problem=with_colon)[1].endswith("x… see the log of slurmctld")


def test_control_characters_of_a_problem_are_not_written() -> None:
    assert "\x1b" not in "".join(shown(80, problem="a\x1b]52;c;x\x07 b\nc", cluster="\x1bx"))


async def test_our_own_scheduler_has_no_line(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.shows("No jobs")
        assert not ui.app.screen.query_one("#scheduler").display


def test_our_own_scheduler_shows_a_problem_without_the_age_of_data() -> None:
    own = EngineRow(version="0.9.0", problem="standby host2: no answer for 3 s.")
    assert texts(scheduler_lines(own, now=NOW, width=100)) == [
        " warpdeck 0.9   standby host2: no answer for 3 s."
    ]


async def test_the_age_counts_and_is_read_again_without_any_change(folder: Path) -> None:
    slurm = OtherScheduler()
    slurm.about(read_at=time.time() - 20.0, requests_a_minute=6.0)
    async with run_app(folder, adapt=slurm, size=(80, 24)) as ui:
        ui.app.core._pulse_s = 0.05
        await ui.shows("Slurm 24.11 · hpc1", "read 2", "6 requests/min")
        first = ui.line(2)
        await ui.until(lambda: ui.line(2) != first and "read 2" in ui.line(2), "the age counts")
        slurm.about(read_at=time.time() - 400.0, problem=PROBLEM)
        await ui.shows("read 6 min ago", "Ask the administrators")
        slurm.about(read_at=time.time(), problem="")
        await ui.hides("Ask the administrators", " ago")
        for key in "123456":
            await ui.press(key)
            await ui.shows("Slurm 24.11 · hpc1")


# ---- Impossible actions


async def test_an_impossible_action_is_grey_and_shows_its_reason(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(140, 40)) as ui:
        await ui.cluster.submit("waits", hold=True)
        await ui.shows("waits")
        await open_screen(ui, "nodes")
        await ui.shows("gpu01")
        hints = {hint.command: hint.is_possible for hint in ui.app.front.hints()}  # type: ignore[union-attr]
        assert hints["screen.add"] is False and hints["screen.drain"] is True
        await ui.press("A")
        await ui.shows_notification(IMPOSSIBLE[Action.NODE_ADD])
        assert ui.app.front is not None and ui.app.front.place == "nodes"
        await ui.press("less_than_sign")
        await ui.shows_notification(IMPOSSIBLE[Action.NODES_AT])
        assert "loading" not in ui.line(3)


@pytest.mark.parametrize("place", ["queue", "nodes", "node", "job", "history", "sessions", "admin"])
async def test_no_impossible_action_sends_anything(folder: Path, place: str) -> None:
    everything = {action: f"this scheduler has no {action.value}" for action in Action}
    slurm = OtherScheduler(impossible=everything)
    async with run_app(folder, adapt=slurm, size=(140, 40)) as ui:
        await ui.cluster.submit("runs")
        await ui.cluster.submit("shell", argv=("bash",), pty=PtySize())
        await ui.shows("● R", "shell")
        if place != "history":
            await open_screen(ui, place)
            asked = answered(ui)
            for action in ACTIONS:
                if action.where in (place, "app") and requests_of(action.where, action.id):
                    await ui.app.run_action(command_of(action))
                    assert ui.app.front is not None and ui.app.front.place == place, action
            assert answered(ui) == asked
        await ui.press("4")
        await ui.shows_notification("This scheduler has no past")


def answered(ui: AppPilot) -> dict[str, int]:
    """Return the number of requests by kind, without those that only look."""
    requests = ui.cluster.controller.statistics.as_dict()["requests"]
    return {kind: row["count"] for kind, row in requests.items() if kind in IMPOSSIBLE}


async def test_the_palette_shows_the_reason_below_the_action(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(120, 40)) as ui:
        await ui.cluster.submit("waits", begin_at_unix=time.time() + 3600.0)
        await ui.shows("waits")
        await ui.press("2", "colon")
        await ui.type("add node")
        await ui.shows("A   Slurm's administrators add nodes in slurm.conf")
        await ui.press("enter")
        await ui.shows_notification(IMPOSSIBLE[Action.NODE_ADD])
        await ui.press("colon")
        await ui.type("hold 1")
        await ui.shows("Hold job 1", "Only Slurm's administrators")


async def test_the_help_gives_the_reason_in_place_of_the_explanation(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(120, 40)) as ui:
        await ui.press("2", "question_mark")
        await ui.type("add node")
        await ui.shows("Add node", IMPOSSIBLE[Action.NODE_ADD])
        assert "add a machine over SSH" not in ui.text()


async def test_empty_tables_say_why_and_give_no_impossible_advice(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(120, 40)) as ui:
        await open_screen(ui, "admin")
        await ui.press("tab")
        await ui.shows("No reservations")
        assert "Press n" not in ui.text()
        await ui.press("n")
        await ui.shows_notification(IMPOSSIBLE[Action.RESERVE])
        await ui.press("tab", "n")
        await ui.shows_notification(IMPOSSIBLE[Action.RELOAD])
        await ui.press("tab")
        await ui.shows("Slurm's accounting is off on this cluster")
        await ui.press("n")
        await ui.shows_notification("This key works in")


async def test_the_overview_without_a_timeline_shows_the_use_that_the_jobs_tell(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(120, 40)) as ui:
        await ui.cluster.submit("runs")
        await ui.shows("● R")
        await ui.press("0")
        await ui.shows(
            "GPUs, last 24 hours", "12% allocated", "100%┤", "No job failed", "All nodes accept jobs"
        )


async def test_the_overview_says_why_there_is_no_history(folder: Path) -> None:
    nothing_past = {Action.PAST: "Slurm's accounting is off on this cluster"}
    async with run_app(folder, adapt=OtherScheduler(impossible=nothing_past), size=(120, 40)) as ui:
        await ui.press("0")
        await ui.shows("last 24 hours", "Slurm's accounting is off on this cluster")
        await ui.press("tab", "tab", "enter")
        await ui.shows_notification("Slurm's accounting is off on this cluster")


async def test_the_limits_are_those_of_the_latest_connection(folder: Path) -> None:
    slurm = OtherScheduler()
    async with run_app(folder, adapt=slurm) as ui:
        await ui.press("2")
        await ui.press("A")
        await ui.shows_notification(IMPOSSIBLE[Action.NODE_ADD])
        await ui.cluster.stop()
        await ui.shows("reconnecting")
        ui.cluster._adapt = lambda engine: engine
        await ui.cluster.start()
        await ui.hides("reconnecting", "Slurm")
        await ui.press("A")
        await ui.shows("Add a node")


async def test_the_form_says_why_there_is_no_estimate(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(140, 40)) as ui:
        await ui.press("n")
        await ui.shows("New job", "This version of Slurm cannot test a submission")


# ---- No readings


async def test_gpus_without_readings_are_allocated_or_free(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler(), size=(140, 40)) as ui:
        await ui.cluster.submit("runs")
        await ui.shows("● R")
        await ui.press("2")
        await ui.shows("=this", "free", "color: utilization (no readings)", "no readings   alloc: allocated")
        await ui.press("l")
        await ui.shows("alloc")
        await ui.press("h")
        assert "%" not in re.sub(r"(CPUs? |memory |mem )[━╸─ ]*\d+%", "", ui.text())
        assert "0 B" not in ui.text() and "?" not in ui.line(3)
        await ui.press("p")
        await ui.shows(
            "node gpu01", NO_READINGS, IMPOSSIBLE[Action.NODE_CHECK], IMPOSSIBLE[Action.CURVES], "10.0.0.7"
        )
        assert "ECC" not in ui.text() and "NVLink" not in ui.text()


def test_cells_of_gpus_without_readings_say_whether_they_are_allocated() -> None:
    bare = GpuRow(index=0, uuid="", name="GPU", type="", mem_bytes=0)
    for metric in ("util", "memory", "power", "temp"):
        assert gpu_cell("n1", bare, metric, out=False, context=MapContext())[1:4] == ("free", 0, None)
        held = replace(bare, job="12")
        assert gpu_cell("n1", held, metric, out=False, context=MapContext())[1] == "alloc"
        assert gpu_cell("n1", held, metric, out=False, context=MapContext(job="12"))[1] == "=this"
        assert (
            gpu_cell("n1", replace(bare, job="?"), metric, out=False, context=MapContext(job="?"))[1]
            == "alloc"
        )
        assert (
            gpu_cell("n1", replace(bare, blocked="drained"), metric, out=False, context=MapContext())[1]
            == "!"
        )
        assert gpu_cell("n1", bare, metric, out=True, context=MapContext())[1] == "!"
    unread = replace(bare, uuid="GPU-1", mem_bytes=80 << 30)
    assert gpu_cell("n1", unread, "util", out=False, context=MapContext())[1] == "?"
    assert all_unmeasured([NodeRow(name="n1", gpus=[bare])])
    assert not all_unmeasured([NodeRow(name="n1", gpus=[bare, unread])])
    assert not all_unmeasured([NodeRow(name="n1")])


def test_details_of_a_gpu_without_readings_have_no_empty_numbers() -> None:
    bare = GpuRow(index=0, uuid="", name="a100", type="a100", mem_bytes=0, job="?")
    node = NodeRow(name="n1", state="mixed", address="10.0.0.7", gpus=[bare])
    assert texts(gpu_detail(node, 0)) == [
        "GPU 0  a100",
        " readings none",
        "      job allocated to an unknown job",
    ]
    owned = replace(bare, job="12")
    assert texts(gpu_detail(replace(node, gpus=[owned]), 0))[-1] == "      job 12"
    assert texts(node_lines(node))[-1] == "  address 10.0.0.7"
    assert "0 B" not in "".join(texts(node_lines(node)))


def test_the_page_of_a_node_says_what_is_not_measured() -> None:
    bare = GpuRow(index=0, uuid="", name="a100", type="a100", mem_bytes=0)
    node = NodeRow(name="n1", state="idle", gpus=[bare, replace(bare, index=1)], at=NOW)
    missing = Missing(curves="Slurm has no curves", checks="Slurm has no health checks")
    lines = texts(page(node, NodeCurves(), span=0, told="", width=80, missing=missing))
    assert "   health Slurm has no health checks" in lines and "   charts Slurm has no curves" in lines
    assert lines[-2:] == ["GPU 0        job free   no readings", "GPU 1        job free   no readings"]
    assert not [line for line in lines if "NVLink" in line or "last 10 minutes" in line or "%" in line[:20]]


def test_gpus_of_a_job_without_readings_are_not_shown_as_zero() -> None:
    row = RUNNING

    def page_of(detail: JobDetail) -> list[str]:
        return texts(gpu_page(detail, Sources({}), width=100))

    assert page_of(JobDetail(row=row)) == ["2 GPUs allocated; which ones is unknown"]
    assert page_of(JobDetail(row=replace(row, state="PENDING", start=None))) == ["No GPU allocated yet"]
    use = GpuUse(node="n1", index=3, uuid="", util_pct=None, mem_used_bytes=None, mem_bytes=0)
    assert page_of(JobDetail(row=row, gpus=[use]))[1:] == ["n1:3       no readings"]
    unknown = replace(use, index=-1)
    assert page_of(JobDetail(row=row, gpus=[unknown]))[1:] == ["n1:?       no readings"]
    sampled = replace(use, util_pct=40, mem_used_bytes=2 << 30, source="sampler")
    (line,) = page_of(JobDetail(row=row, gpus=[sampled]))[2:]
    assert " 40% " in line and " 2G " in line and line.endswith(" (sampler)")
    assert job_row(row, ("util",), now=NOW)[0].text == "n/a"
    assert job_row(row, ("util",), now=NOW - 3590.0)[0].text.strip("·") == ""
    measured = replace(row, gpu_util_pct=0)
    assert job_row(measured, ("util",), now=NOW)[0].text == "idle 0%"


def test_idle_gpus_are_not_denied_where_nobody_measures() -> None:
    row = RUNNING
    assert (
        idle_words([], unmeasured=unmeasured_words([row], NOW))
        == "No idle GPUs; 1 job with GPUs has no readings"
    )
    assert unmeasured_words([replace(row, gpu_util_pct=90), replace(row, gpus=0)], NOW) == ""
    assert idle_words([]) == "No idle GPUs"


def test_an_environment_that_nobody_recorded_is_not_called_empty() -> None:
    assert texts(environment_lines({}, is_recorded=False)) == ["not recorded"]
    assert texts(environment_lines({})) == ["0 variables"]
    assert texts(environment_lines({"A": "1"}, is_recorded=False)) == ["1 variable", "A=1"]


def test_the_legend_of_owners_explains_unknown_jobs_only_where_they_occur() -> None:
    assert "? unknown" in legend("owner", unmeasured=True)
    assert "?" not in legend("owner")


async def test_the_plain_text_of_the_site_says_which_tables_have_no_data(folder: Path) -> None:
    async with run_app(folder, adapt=OtherScheduler()) as ui:
        lines = await screen_text(ui.cluster.paths, "site", PlainRequest())
        assert lines[lines.index("shares:") + 1] == IMPOSSIBLE[Action.SHARES]
        assert "priorities:" in lines
        assert await screen_text(ui.cluster.paths, "idle", PlainRequest()) == ["No idle GPUs"]


def texts(lines: Iterable[Line]) -> list[str]:
    return ["".join(cell.text for cell in line) for line in lines]
