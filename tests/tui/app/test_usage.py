"""Usage of ended jobs by user, account, state and reason, on the screen and as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import ME, run_app
from tests.tui.app.test_viewmodels import ended

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import GroupCost
from warpdeck.notation.filters.job_filter import holds as holds_of
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.job_rows import JobRow, UsageRow
from warpdeck_tui.screens.shared.dialogs import TextPage
from warpdeck_tui.viewmodels.site.exports import cost_records, form_of, records
from warpdeck_tui.viewmodels.site.usage import BOLD, GROUPS, LONGEST_TABLE, PLAIN, cost, grouped, usage_text
from warpdeck_tui.widgets.cells import REPLACEMENT

HOUR_S = 3600.0


def job(
    number: int, *, hours: float = 1.0, gpus: int = 1, use: float | None = None, **fields: object
) -> JobRow:
    used = None if use is None else UsageRow(gpu_util_pct=use, gpu_idle_pct=(100 - use) / 2)
    return ended(number, **{"start": 0.0, "end": hours * HOUR_S, "gpus": gpus, "used": used, **fields})


def costs(*rows: JobRow) -> list[GroupCost]:
    return [
        GroupCost(
            user=row.user,
            account=row.account,
            partition=row.partition,
            state=row.state,
            reason=row.reason,
            cost=cost(row),
        )
        for row in rows
    ]


def export(rows: Sequence[JobRow], path: str, *, at_once: int = 1) -> str:
    """Return the exported text, written in pieces of `at_once` jobs like the history."""
    form = form_of(path)
    pieces = [form.piece(records(rows[at : at + at_once]), not at) for at in range(0, len(rows) + 1, at_once)]
    return form.begin + "".join(pieces) + form.end


def test_hours_are_summed_by_group_with_the_largest_first() -> None:
    rows = [
        job(1, user="ann", gpus=8, hours=2, use=50.0),
        job(2, user="bob", gpus=4, hours=10, use=100.0, state="COMPLETED"),
        job(3, user="ann", gpus=0, hours=1),
    ]
    (first, bob), (second, ann) = grouped(costs(*rows), GROUPS["user"])
    assert (first, second) == ("bob", "ann")
    assert (bob.allocated, bob.used, bob.wasted, bob.failed) == (40.0, 40.0, 0.0, 0)
    assert (ann.jobs, ann.failed, ann.allocated, ann.used, ann.wasted) == (2, 2, 16.0, 8.0, 4.0)
    assert ann.cpu_hours == 3.0


def test_missing_measurements_do_not_count_as_unused() -> None:
    text = usage_text(costs(job(1, use=None, gpus=2), job(2, use=50.0, gpus=2)))
    assert "50 % of them used, 25 % wasted" in text
    assert "No utilization data for 2.00 GPU-hours" in text
    unknown = [line.split() for line in usage_text(costs(job(1))).splitlines() if line.startswith("ann")]
    assert unknown[0][5:7] == ["?", "?"]


def test_each_grouping_has_a_table_and_long_tables_are_cut() -> None:
    rows = [job(number, user=f"user{number}", gpus=number) for number in range(1, 31)]
    text = usage_text(costs(*rows))
    for title in ("BY USER", "BY ACCOUNT", "BY PARTITION", "BY STATE", "BY EXIT REASON"):
        assert title in text
    lines = text.splitlines()
    assert sum(line.startswith("user") for line in lines) == LONGEST_TABLE
    assert [line.split()[:3] for line in lines if "more" in line] == [["10", "more", "10"]]
    assert all(len(line.removeprefix(BOLD).removesuffix(PLAIN)) <= 71 for line in lines)


def test_usage_without_jobs_shows_a_message() -> None:
    assert "No finished jobs" in usage_text([])


def test_exit_reasons_do_not_name_nodes() -> None:
    rows = [job(1, node_list="gpu01"), job(2, node_list="gpu02")]
    assert [name for name, _ in grouped(costs(*rows), GROUPS["exit reason"])] == ["exit 1"]


def test_jobs_are_filtered_by_account_and_reason() -> None:
    vision = job(1, account="vision", exit_code="0:9", exit_cause="oom")
    for text, holds in (
        ("account:vis", True),
        ("account:nlp", False),
        ("reason:oom", True),
        ("reason:exit", False),
    ):
        assert holds_of(parse_filter(text))(vision) is holds


def test_an_export_contains_every_job_in_the_format_of_its_extension() -> None:
    rows = [job(7, use=50.0, name="a|b,c", sweep="lr=0.1"), job(8, name="=cmd()")]
    records = json.loads(export(rows, "x.json"))
    assert [(each["id"], each["gpu_hours"], each["gpu_hours_used"]) for each in records] == [
        ("7", 1.0, 0.5),
        ("8", 1.0, None),
    ]
    table = list(csv.DictReader(io.StringIO(export(rows, "X.CSV"))))
    assert [(each["name"], each["sweep"]) for each in table] == [("a|b,c", "lr=0.1"), ("'=cmd()", "")]
    assert [each["gpu_hours_used"] for each in table] == ["0.5", ""]
    assert table[0]["end"] == moment_text(HOUR_S) and records[0]["end"] == HOUR_S
    lines = export(rows, "x.md").splitlines()
    assert len(lines) == 4 and "a\\|b,c" in lines[2]


HOSTILE = {
    "=cmd|' /C calc'!A0": ("'=cmd|' /C calc'!A0", "=cmd\\|' /C calc'!A0"),
    " =1+1": ("' =1+1", " =1+1"),
    "\n=1+1": ("'\n=1+1", " =1+1"),
    "a\rb\r\nc": ("a\nb\nc", "a b  c"),
    'say "hi", you': ('say "hi", you', 'say "hi", you'),
    "a\\|b": ("a\\|b", "a\\\\\\|b"),
    "<img src=x> [x](y) *b* __init__ vit_l": (
        "<img src=x> [x](y) *b* __init__ vit_l",
        "\\<img src=x\\> \\[x\\](y) \\*b\\* \\_\\_init\\_\\_ vit_l",
    ),
    "\x1b[31mred\0": (f"{REPLACEMENT}[31mred{REPLACEMENT}", f"{REPLACEMENT}\\[31mred{REPLACEMENT}"),
    "训练 🚀": ("训练 🚀", "训练 🚀"),
}
"""Names of jobs, with their form in CSV and in Markdown."""


def test_exported_names_are_no_formulas_and_no_markup() -> None:
    rows = [job(number, name=name) for number, name in enumerate(HOSTILE, 1)]
    assert [each["name"] for each in json.loads(export(rows, "x.json"))] == list(HOSTILE)
    table = csv.DictReader(io.StringIO(export(rows, "x.csv"), newline=""))
    assert [each["name"] for each in table] == [words for words, _ in HOSTILE.values()]
    lines = export(rows, "x.md").splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == [words for _, words in HOSTILE.values()]


def test_usage_is_exported_for_each_grouping() -> None:
    found = cost_records(costs(job(1, user="ann", use=50.0), job(2, user="=bob")))
    assert [(each["name"], each["gpu_hours_used"]) for each in found if each["by"] == "user"] == [
        ("=bob", None),
        ("ann", 0.5),
    ]
    assert {each["by"] for each in found} == set(GROUPS)
    table = list(csv.DictReader(io.StringIO(form_of("x.csv").piece(found, True))))
    assert table[0]["name"] == "'=bob" and table[1]["gpu_hours"] == "1.0"


@pytest.mark.parametrize("path", ["jobs", "jobs.xls", "jobs."])
def test_an_unknown_file_format_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="Unknown file format"):
        export([job(1)], path)


async def test_a_long_text_page_opens_at_its_beginning(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        ui.app.push_screen(TextPage("Long", "".join(f"line {number}\n" for number in range(500))))
        await ui.shows("line 0 ", "line 9 ")
        await ui.pilot.pause(0.2)
        assert "line 0 " in ui.text() and "line 499" not in ui.text()


async def test_usage_and_export_cover_the_listed_jobs(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        ui.cluster.ends["fails"] = (0.0, 3)
        ui.cluster.ends["works"] = (0.0, 0)
        await ui.cluster.submit("fails")
        await ui.cluster.submit("works")
        await ui.shows("✗ F", "✓ CD")
        await ui.press("4")
        await ui.shows("history", "fails", "works")
        await ui.press("b")
        await ui.shows("Usage:", "2 jobs, 1 failed", "BY USER", "BY EXIT REASON", "exit 3")
        await ui.press("e")
        await ui.shows("Export usage to file")
        await ui.type("usage.csv")
        await ui.press("enter")
        await ui.shows_notification("Wrote usage to usage.csv")
        lines = Path("usage.csv").read_text().splitlines()
        assert lines[0].startswith("by,name,jobs,failed,") and lines[1] == f"user,{ME},2,1,0.0,0.0,0.0,,"
        await ui.press("escape", "slash")
        await ui.type("fails")
        await ui.press("enter")
        await ui.hides("works")
        await ui.press("E")
        await ui.shows("Export 1 job to file")
        await ui.type("jobs.json")
        await ui.press("enter")
        await ui.shows_notification("Wrote 1 job to jobs.json")
        assert [each["name"] for each in json.loads(Path("jobs.json").read_text())] == ["fails"]
        assert Path("jobs.json").stat().st_mode & 0o777 == 0o600
        await ui.press("E")
        await ui.shows("Export 1 job")
        await ui.type("jobs.json")
        await ui.press("enter")
        await ui.shows_notification("Cannot write jobs.json: File exists")
