"""The site's tables: their explanations, and the changes that start from them."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from tests.tui.app.app_pilot import ME, run_app

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.model import (
    ExitStatus,
    Gpu,
    GpuRequest,
    GpuUuid,
    Job,
    JobId,
    JobState,
    Node,
    NodeName,
    Request,
    Reservation,
    Resources,
)
from warpdeck.ports.store import Changes
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import PartitionRow, PriorityRow, QosRow, ReservationRow, ShareRow
from warpdeck.store import SqliteStore
from warpdeck_tui.data import what_if
from warpdeck_tui.screens.admin import AdminScreen
from warpdeck_tui.viewmodels.site import site_tables as tables
from warpdeck_tui.viewmodels.site.what_if import WaitChange, WhatIf, what_if_rows, what_if_words

NOW = 1_700_000_000.0
JOBS = 600
TREE = [
    ShareRow(
        account="vision", shares=3, norm_shares=0.75, usage=90.0, norm_usage=0.9, level_fs=0.83, depth=0
    ),
    ShareRow(
        account="vision", user="ann", depth=1, norm_shares=0.5, norm_usage=0.2, level_fs=2.5, fairshare=1.0
    ),
    ShareRow(
        account="vision", user="bob", depth=1, norm_shares=0.5, norm_usage=0.8, level_fs=0.6, fairshare=0.5
    ),
    ShareRow(account="nlp", shares=1, norm_shares=0.25, depth=0),
]


def texts(row: tables.Row) -> list[str]:
    return [cell.text for cell in row[1]]


def test_the_position_of_an_account_or_user_is_explained() -> None:
    vision, ann, bob, nlp = TREE
    words = tables.share_words(vision, TREE, half_life_s=7 * 86_400.0)
    assert words == (
        "vision has a share of 75 % of the cluster and used 90 %: more than its share, level 0.83."
        " Usage decays with a half-life of 7-00:00:00."
    )
    assert "less than its share, level 2.50. Rank 1 of 2 users" in tables.share_words(
        ann, TREE, half_life_s=None
    )
    assert "Rank 2 of 2 users: fair-share factor 0.50" in tables.share_words(bob, TREE, half_life_s=None)
    assert "no recent usage" in tables.share_words(nlp, TREE, half_life_s=None)
    assert [texts(row)[0] for row in tables.account_rows(TREE)] == ["vision", "  ann", "  bob", "nlp"]


def test_a_priority_is_explained_by_its_components() -> None:
    row = PriorityRow(label="12", user="ann", priority=690, age_part=200.0, fairshare_part=500.0, nice=10)
    weights = {"age": 1000.0, "fairshare": 500.0, "qos": 50.0}
    assert tables.priority_words(row, weights) == (
        "12: 200 of 1000 for age, 500 of 500 for fairshare, 0 of 50 for QoS, minus nice 10 = 690."
    )
    assert tables.priority_words(row, {}) == ("12: 200 for age, 500 for fairshare, minus nice 10 = 690.")
    plain = PriorityRow(label="13", user="ann", priority=0)
    assert "13: all priority weights are 0" in tables.priority_words(plain, {})
    # sprio of Slurm leaves out the tasks of an array that is at its limit.
    untold = PriorityRow(label="2_[3-4]", user="ann", priority=1132)
    assert tables.priority_words(untold, weights) == (
        "2_[3-4]: priority 1132. The scheduler tells no factors of this job."
    )
    by_hand = PriorityRow(label="7", priority=99, set_by_hand=True)
    assert "was set by an admin" in tables.priority_words(by_hand, weights)


def test_partitions_reservations_and_qos_show_their_users() -> None:
    part = PartitionRow(
        name="gpu", default=True, allow_accounts=["a", "b"], node_states={"idle": 2}, max_nodes=4
    )
    assert texts(tables.partition_rows([part])[0])[-1] == "account a or b"
    assert tables.partition_words(part) == "no nodes: 2 idle; at most 4 nodes"
    active = ReservationRow(
        name="class", state="active", node_list="n1", start=NOW, end=NOW + 7200, users=["ann"]
    )
    assert texts(tables.reservation_rows([active], now=NOW)[0])[3:] == ["2:00:00", "", "n1", "ann"]
    assert tables.reservation_words(active, now=NOW + 3600) == (
        "Active, ends in 1h00. Jobs use it with --reservation=class."
    )
    qos = QosRow(name="high", limits={"max_tres_per_user": {"gpu": 8}, "max_jobs_per_user": 4})
    assert texts(tables.qos_rows([qos])[0])[-1] == "max_tres_per_user gpu=8, max_jobs_per_user 4"


def test_drained_nodes_come_first_and_events_newest_first() -> None:
    nodes = [
        NodeRow(name="a", state="idle"),
        NodeRow(name="b", state="drained", reason="dust", reason_at=NOW - 60),
    ]
    assert [texts(row)[0] for row in tables.drain_rows(nodes, now=NOW)] == ["b", "a"]
    events = [EventRow(at=NOW, job=7, text="ended"), EventRow(at=NOW - 1, job=7, text="started")]
    rows = tables.event_rows(events)
    assert len({key for key, _ in rows}) == 2 and texts(rows[0])[1:] == ["7", "ended"]


async def test_reservations_are_created_changed_and_removed_with_undo(
    folder: Path,
) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        await ui.press("6")
        await ui.shows("[Partitions]", "main*")
        await ui.press("tab", "n")
        await ui.shows("New reservation", "$ warpdeck reservation create NAME")
        await ui.type("class")
        await ui.press("tab")
        await ui.type("gpu01")
        await ui.press("tab", "tab", "tab")
        await ui.type(ME)
        await ui.shows(f"create class --nodes gpu01 --users {ME}")
        await ui.press("enter")
        await ui.shows("[Reservations]", "class", "active", "--reservation=class")
        await ui.press("e")
        await ui.shows("Edit reservation class")
        ui.field("duration").value = "nonsense"
        await ui.press("enter")
        await ui.shows("nonsense")
        ui.field("duration").value = "2:00:00"
        await ui.press("enter")
        await ui.shows("2:00:00", "Active, ends in")
        await ui.press("X")
        await ui.shows("$ warpdeck reservation rm class")
        await ui.press("y")
        await ui.shows("No reservations")
        await ui.press("Z")
        await ui.shows_notification("Undone: warpdeck reservation create class --nodes gpu01")
        await ui.press("Z")
        await ui.shows_notification("--instead")
        await ui.press("Z")
        await ui.shows_notification("Undone: warpdeck reservation rm class")
        assert not (await ui.app.core.ask(requests.Reservations())).reservations


async def test_a_changed_reservation_keeps_fields_that_its_form_does_not_show(folder: Path) -> None:
    """These are the parts of nodes, the requested features and the node count. Undo keeps them, too."""
    parts = [
        {"node": "gpu01", "cpus": 12, "gpus": [["h100", 3]]},
        {"node": "gpu02", "cpus": 4, "gpus": [["h100", 1]]},
    ]
    made: dict[str, object] = {
        "name": "uneven",
        "nodes": ["gpu01", "gpu02"],
        "parts": parts,
        "start_unix": time.time() + 3600,
        "end_unix": time.time() + 7200,
        "users": [ME],
        "features": "h100",
        "node_count": 2,
        "partition": "main",
        "burst_buffer": "5G",
    }

    async with run_app(folder, size=(100, 34)) as ui:
        core = ui.app.core

        async def fields_of_reservation() -> dict[str, object]:
            [row] = msgspec.json.decode(
                msgspec.json.encode((await core.ask(requests.Reservations())).reservations)
            )
            return {name: row[name] for name in (*made, "node_list") if name in row}

        await core.ask(requests.ReservationMake(reservation=msgspec.convert(made, Reservation)))
        before = await fields_of_reservation()
        assert before["parts"] == parts
        await ui.press("6", "tab")
        await ui.shows("[Reservations]", "uneven")
        await ui.press("e")
        await ui.shows("Edit reservation uneven")
        ui.field("duration").value = "5:00:00"
        await ui.press("enter")
        await ui.shows("5:00:00")
        assert await fields_of_reservation() == before
        [changed] = (await core.ask(requests.Reservations())).reservations
        assert changed.end is not None and changed.start is not None
        assert changed.end - changed.start == 5 * 3600
        await ui.press("Z")
        await ui.shows_notification("Undone")
        assert await fields_of_reservation() == before
        await ui.press("X", "y")
        await ui.shows("No reservations")
        await ui.press("Z")
        await ui.shows_notification("Undone")
        assert await fields_of_reservation() == before


async def test_a_changed_total_is_spread_evenly_over_the_reserved_nodes(folder: Path) -> None:
    async with run_app(folder, size=(100, 34)) as ui:
        core = ui.app.core
        parts = [{"node": "gpu01", "cpus": 12, "gpus": []}, {"node": "gpu02", "cpus": 4, "gpus": []}]
        end = time.time() + 7200
        made = {
            "name": "r",
            "nodes": ["gpu01", "gpu02"],
            "parts": parts,
            "start_unix": 0.0,
            "end_unix": end,
            "users": [ME],
        }
        await core.ask(requests.ReservationMake(reservation=msgspec.convert(made, Reservation)))
        await ui.press("6", "tab")
        await ui.shows("[Reservations]", "r")
        await ui.press("e")
        await ui.shows("Edit reservation r")
        ui.field("tres").value = "cpu=10"
        await ui.press("enter")
        await ui.shows("[Reservations]")
        [row] = (await core.ask(requests.Reservations())).reservations
        assert [part.cpus for part in row.parts] == [5, 5]


async def test_every_table_of_the_site_is_shown(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        await ui.cluster.submit("llama")
        await ui.press("6")
        for words in (
            "[Reservations]",
            "[QoS]",
            "[Shares]",
            "[Priorities]",
            "[Drains]",
            "[Events]",
            "[What if]",
        ):
            await ui.press("tab")
            await ui.shows(words)
        await ui.press("shift+tab")
        await ui.shows("[Events]", "submitted")
        await ui.press("enter")
        await ui.shows("llama")
        await ui.press("escape", "shift+tab")
        await ui.shows("[Drains]", "gpu01", "gpu02")
        await ui.press("d")
        await ui.shows("Reason for draining gpu01")
        await ui.type("dust")
        await ui.press("enter")
        await ui.shows("drain", "dust")


async def test_invalid_settings_change_nothing_and_valid_ones_apply_at_once(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        await ui.press("6", "tab", "tab")
        await ui.shows("[QoS]")
        screen, path = ui.app.screen, Path(ui.cluster.paths.config)
        before = path.read_text()
        assert isinstance(screen, AdminScreen)
        screen.use_config("[qos.high]\npriority = nonsense\n", before=before)
        await ui.shows("Errors in config.toml", "No settings were changed")
        assert path.read_text() == before
        await ui.press("escape")
        screen.use_config("[qos.high]\nfoo = 3\n", before=before)
        await ui.shows("qos.high.foo: unknown key")
        assert "preempt_exempt_s" in "".join(ui.text().split())  # far beyond the width of the page
        await ui.press("escape")
        screen.use_config("[qos.high]\npriority = 10\n", before=before)
        await ui.shows("high", "10")
        assert path.stat().st_mode & 0o777 == 0o600


async def test_events_of_array_tasks_show_their_task_numbers(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_array(tasks=2, at_once=2)
        await ui.press("6")
        await ui.shows("[Partitions]")
        ui.app.screen.show_tab("events")  # type: ignore[attr-defined]
        # The record of the array becomes that of its last task.
        await ui.shows(
            "[Events]", "1_0            running", "1_1            running", "1              submitted"
        )


async def test_a_refused_what_if_can_be_corrected(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("6", "w")
        await ui.shows("Simulation options")
        ui.field("answer").value = "--add-gpus many"
        await ui.press("enter")
        await ui.until(lambda: "many" in ui.notifications(), "the reason of the refusal")
        await ui.until(lambda: ui.field("answer").value == "--add-gpus many", "the options in the dialog")


async def test_a_key_of_another_table_names_that_table(
    folder: Path,
) -> None:
    async with run_app(folder) as ui:
        await ui.press("6", "d")
        await ui.shows_notification("This key works in Drains, not in Partitions. Press Tab to go there")
        await ui.press("A")
        await ui.shows("Add a node")
        await ui.press("escape", "w")
        await ui.shows("Simulation options", "simulate --history")
        await ui.press("escape")
        await ui.shows("[What if]")


async def test_a_qos_is_created_changed_and_removed_with_undo(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        path = Path(ui.cluster.paths.config)
        path.write_text("# ours\n[qos.normal]\nmax_wall = '1:00:00' # short\n")
        await ui.cluster.controller.reload(str(path))
        await ui.press("6", "tab", "tab", "n")
        await ui.shows("New QoS", "[qos.NAME]", "max_submit_per_user", "Enter Save")
        await ui.type("high")
        ui.field("priority").value = "many"
        await ui.shows("priority must be a number, not 'many'")
        ui.field("priority").value = "10"
        ui.field("preempts").value = "normal, none"
        await ui.shows('[qos.high] priority = 10, preempts = ["normal", "none"]')
        await ui.press("enter")
        await ui.shows("there is no QoS 'none'")
        assert "high" not in path.read_text()
        ui.field("preempts").value = "normal"
        await ui.press("enter")
        await ui.shows("[QoS]", "▌high", "max_wall")
        await ui.press("G", "e")
        await ui.shows("Edit QoS normal", "1:00:00")
        ui.field("max_wall").value = "2:00:00"
        await ui.press("enter")
        await ui.shows("max_wall 2:00:00")
        assert path.read_text() == (
            '# ours\n[qos.normal]\nmax_wall = "2:00:00" # short\n'
            '\n[qos.high]\npriority = 10\npreempts = ["normal"]\n'
        )
        await ui.press("g", "X")
        await ui.shows("Remove QoS high from config.toml?")
        await ui.press("y")
        await ui.hides("high")
        assert "high" not in path.read_text()
        await ui.press("Z", "Z", "Z")
        await ui.shows_notification("Undone: warpdeck config reload  # undo: [qos.high] priority = 10")
        assert path.read_text() == "# ours\n[qos.normal]\nmax_wall = '1:00:00' # short\n"


async def test_undo_does_not_overwrite_a_file_changed_by_someone_else(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        path = Path(ui.cluster.paths.config)
        await ui.press("6", "tab", "tab", "n")
        await ui.type("high")
        ui.field("priority").value = "10"
        await ui.press("enter")
        await ui.shows("▌high")
        theirs = path.read_text() + "# somebody else's\n"
        path.write_text(theirs)
        await ui.press("Z")
        await ui.shows_notification("was changed by someone else")
        assert path.read_text() == theirs


async def test_a_partition_is_created_and_validated_by_its_form(folder: Path) -> None:
    async with run_app(folder, size=(100, 30)) as ui:
        await ui.press("6", "n")
        await ui.shows("New partition")
        await ui.type("short")
        ui.field("max_time").value = "1:00:00"
        await ui.press("enter")
        await ui.shows("[Partitions]", "short", "1:00:00")
        await ui.press("enter")
        await ui.shows("Edit partition short")
        ui.field("state").value = "SIDEWAYS"
        await ui.press("enter")
        await ui.shows("SIDEWAYS", "Edit partition short")


async def test_a_what_if_replays_the_history_and_reports_progress(folder: Path) -> None:
    home = folder / "past"
    home.mkdir(mode=0o700)
    with pytest.raises(UserError):  # the home has no history
        await what_if.what_if(["--add-gpus", "8"], Paths(str(home)), lambda words: None)
    with pytest.raises(UserError) as wrong:
        await what_if.what_if(["--nodes", "x"], Paths(str(home)), lambda words: None)
    assert wrong.value.message == "argument --nodes: 'x' is not between 1 and 1,000,000"
    await _write_history(home / "state.db")
    progress: list[str] = []
    found = await what_if.what_if(["--add-gpus", "8"], Paths(str(home)), progress.append)
    assert [(each.name, each.jobs) for each in found.users] == [("ann", JOBS)]
    assert found.users[0].now_waits_s > 0 and found.users[0].then_waits_s < found.users[0].now_waits_s
    assert progress and all(0 < int(words.removesuffix(" %")) <= 100 for words in progress)


async def _write_history(database: Path) -> None:
    """Write a history with one node of two GPUs and jobs of one hour, submitted together with one GPU each."""
    gpus = tuple(
        Gpu(index=at, uuid=GpuUuid(f"gpu-{at}"), name="H100", type="h100", mem_bytes=80 << 30)
        for at in (0, 1)
    )
    store = await SqliteStore.open(str(database))
    request = Request(name="train", resources=Resources(gpus=GpuRequest(per_node=1)))
    jobs = [
        Job(
            id=JobId(number),
            array_job_id=JobId(number),
            request_key=1,
            request=request,
            user="ann",
            uid=1000,
            state=JobState.COMPLETED,
            submit_at_unix=NOW,
            start_at_unix=NOW + 3600 * number,
            end_at_unix=NOW + 3600 * (number + 1),
            exit=ExitStatus(),
        )
        for number in range(1, JOBS + 1)
    ]
    node = Node(name=NodeName("gpu01"), cpus=16, mem_bytes=64 << 30, gpus=gpus)
    await store.commit(
        Changes(requests=((JobId(1), request),), jobs=tuple(jobs), nodes=(node,), next_job_id=JOBS + 1)
    )
    await store.close()


def test_a_what_if_shows_the_change_of_waits() -> None:
    change = WaitChange(
        name="ann",
        jobs=10,
        really_waited_s=90.0,
        now_waits_s=100.0,
        then_waits_s=40.0,
        difference_s=-60.0,
        shorter=8,
        longer=1,
    )
    found = WhatIf(jobs=11, not_started=1, users=[change], accounts=[])
    assert texts(what_if_rows(found)[0])[5] == "-1:00"
    assert what_if_words(found) == ("11 jobs: mean wait 1:00 shorter; 1 cannot start on the current nodes")
