"""The site's tables: what they say in words, and what can be changed from them."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from tests.tui.app.stage import ME, on_stage

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
from warpdeck.ports.ports import Changes
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


def test_a_place_in_the_tree_of_accounts_is_explained() -> None:
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


def test_a_priority_is_explained_by_its_parts() -> None:
    row = PriorityRow(label="12", user="ann", priority=690, age_part=200.0, fairshare_part=500.0, nice=10)
    weights = {"age": 1000.0, "fairshare": 500.0, "qos": 50.0}
    assert tables.priority_words(row, weights) == (
        "12: 200 of 1000 for age, 500 of 500 for fairshare, 0 of 50 for QoS, minus nice 10 = 690."
    )
    assert tables.priority_words(row, {}) == ("12: 200 for age, 500 for fairshare, minus nice 10 = 690.")
    plain = PriorityRow(label="13", user="ann", priority=0)
    assert "13: all priority weights are 0" in tables.priority_words(plain, {})
    by_hand = PriorityRow(label="7", priority=99, set_by_hand=True)
    assert "was set by an admin" in tables.priority_words(by_hand, weights)


def test_partitions_reservations_and_qos_say_whom_they_are_for() -> None:
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


def test_drained_nodes_stand_first_and_events_latest_first() -> None:
    nodes = [
        NodeRow(name="a", state="idle"),
        NodeRow(name="b", state="drained", reason="dust", reason_at=NOW - 60),
    ]
    assert [texts(row)[0] for row in tables.drain_rows(nodes, now=NOW)] == ["b", "a"]
    events = [EventRow(at=NOW, job=7, text="ended"), EventRow(at=NOW - 1, job=7, text="started")]
    rows = tables.event_rows(events)
    assert len({key for key, _ in rows}) == 2 and texts(rows[0])[1:] == ["7", "ended"]


async def test_reservations_are_made_changed_and_removed_with_the_command_that_does_the_same(
    folder: Path,
) -> None:
    async with on_stage(folder, size=(100, 30)) as stage:
        await stage.press("6")
        await stage.shows("[Partitions]", "main*")
        await stage.press("tab", "n")
        await stage.shows("New reservation", "$ warpdeck reservation create NAME")
        await stage.type("class")
        await stage.press("tab")
        await stage.type("gpu01")
        await stage.press("tab", "tab", "tab")
        await stage.type(ME)
        await stage.shows(f"create class --nodes gpu01 --users {ME}")
        await stage.press("enter")
        await stage.shows("[Reservations]", "class", "active", "--reservation=class")
        await stage.press("e")
        await stage.shows("Edit reservation class")
        stage.field("duration").value = "nonsense"
        await stage.press("enter")
        await stage.shows("nonsense")
        stage.field("duration").value = "2:00:00"
        await stage.press("enter")
        await stage.shows("2:00:00", "Active, ends in")
        await stage.press("X")
        await stage.shows("$ warpdeck reservation rm class")
        await stage.press("y")
        await stage.shows("No reservations")
        await stage.press("Z")
        await stage.told("Undone: warpdeck reservation create class --nodes gpu01")
        await stage.press("Z")
        await stage.told("--instead")
        await stage.press("Z")
        await stage.told("Undone: warpdeck reservation rm class")
        assert not (await stage.app.core.ask(requests.Reservations())).reservations


async def test_a_changed_reservation_keeps_what_its_form_does_not_show(folder: Path) -> None:
    """Each node's part, the features by which nodes were chosen, how many they were; and the same after it was taken back."""
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

    async with on_stage(folder, size=(100, 34)) as stage:
        core = stage.app.core

        async def told() -> dict[str, object]:
            [row] = msgspec.json.decode(
                msgspec.json.encode((await core.ask(requests.Reservations())).reservations)
            )
            return {name: row[name] for name in (*made, "node_list") if name in row}

        await core.ask(requests.ReservationMake(reservation=msgspec.convert(made, Reservation)))
        before = await told()
        assert before["parts"] == parts
        await stage.press("6", "tab")
        await stage.shows("[Reservations]", "uneven")
        await stage.press("e")
        await stage.shows("Edit reservation uneven")
        stage.field("duration").value = "5:00:00"
        await stage.press("enter")
        await stage.shows("5:00:00")
        assert await told() == before
        [changed] = (await core.ask(requests.Reservations())).reservations
        assert changed.end is not None and changed.start is not None
        assert changed.end - changed.start == 5 * 3600
        await stage.press("Z")
        await stage.told("Undone")
        assert await told() == before
        await stage.press("X", "y")
        await stage.shows("No reservations")
        await stage.press("Z")
        await stage.told("Undone")
        assert await told() == before


async def test_other_nodes_of_a_changed_reservation_share_evenly_anew(folder: Path) -> None:
    async with on_stage(folder, size=(100, 34)) as stage:
        core = stage.app.core
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
        await stage.press("6", "tab")
        await stage.shows("[Reservations]", "r")
        await stage.press("e")
        await stage.shows("Edit reservation r")
        stage.field("tres").value = "cpu=10"
        await stage.press("enter")
        await stage.shows("[Reservations]")
        [row] = (await core.ask(requests.Reservations())).reservations
        assert [part.cpus for part in row.parts] == [5, 5]


async def test_every_table_of_the_site_can_be_looked_at(folder: Path) -> None:
    async with on_stage(folder, size=(80, 24)) as stage:
        await stage.cluster.submit("llama")
        await stage.press("6")
        for words in (
            "[Reservations]",
            "[QoS]",
            "[Shares]",
            "[Priorities]",
            "[Drains]",
            "[Events]",
            "[What if]",
        ):
            await stage.press("tab")
            await stage.shows(words)
        await stage.press("shift+tab")
        await stage.shows("[Events]", "submitted")
        await stage.press("enter")
        await stage.shows("llama")
        await stage.press("escape", "shift+tab")
        await stage.shows("[Drains]", "gpu01", "gpu02")
        await stage.press("d")
        await stage.shows("Reason for draining gpu01")
        await stage.type("dust")
        await stage.press("enter")
        await stage.shows("drain", "dust")


async def test_rules_that_are_wrong_change_nothing_and_right_ones_count_at_once(folder: Path) -> None:
    async with on_stage(folder, size=(100, 30)) as stage:
        await stage.press("6", "tab", "tab")
        await stage.shows("[QoS]")
        screen, path = stage.app.screen, Path(stage.cluster.paths.config)
        before = path.read_text()
        assert isinstance(screen, AdminScreen)
        screen.use_config("[qos.high]\npriority = nonsense\n", before=before)
        await stage.shows("Errors in config.toml", "No settings were changed")
        assert path.read_text() == before
        await stage.press("escape")
        screen.use_config("[qos.high]\nfoo = 3\n", before=before)
        await stage.shows("qos.high.foo: unknown key")
        assert "preempt_exempt_s" in "".join(stage.text().split())  # far behind the width of the page
        await stage.press("escape")
        screen.use_config("[qos.high]\npriority = 10\n", before=before)
        await stage.shows("high", "10")
        assert path.stat().st_mode & 0o777 == 0o600


async def test_the_events_of_an_arrays_tasks_are_told_by_their_places_in_it(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_array(tasks=4, at_once=2)
        await stage.press("6")
        await stage.shows("[Partitions]")
        stage.app.screen.show_tab("events")  # type: ignore[attr-defined]
        await stage.shows("[Events]", " 1_0 running", " 1 submitted")


async def test_a_key_for_another_table_says_for_which_and_nodes_and_a_what_if_are_asked_for_anywhere(
    folder: Path,
) -> None:
    async with on_stage(folder) as stage:
        await stage.press("6", "d")
        await stage.told("This key works in Drains, not in Partitions. Press Tab to go there")
        await stage.press("A")
        await stage.shows("Add a node")
        await stage.press("escape", "w")
        await stage.shows("Simulation options", "simulate --history")
        await stage.press("escape")
        await stage.shows("[What if]")


async def test_a_qos_is_made_changed_and_removed_by_its_form(folder: Path) -> None:
    async with on_stage(folder, size=(80, 24)) as stage:
        path = Path(stage.cluster.paths.config)
        path.write_text("# ours\n[qos.normal]\nmax_wall = '1:00:00' # short\n")
        await stage.cluster.controller.reload(str(path))
        await stage.press("6", "tab", "tab", "n")
        await stage.shows("New QoS", "[qos.NAME]", "max_submit_per_user", "Enter Save")
        await stage.type("high")
        stage.field("priority").value = "many"
        await stage.shows("priority must be a number, not 'many'")
        stage.field("priority").value = "10"
        stage.field("preempts").value = "normal, none"
        await stage.shows('[qos.high] priority = 10, preempts = ["normal", "none"]')
        await stage.press("enter")
        await stage.shows("there is no QoS 'none'")
        assert "high" not in path.read_text()
        stage.field("preempts").value = "normal"
        await stage.press("enter")
        await stage.shows("[QoS]", "▌high", "max_wall")
        await stage.press("G", "e")
        await stage.shows("Edit QoS normal", "1:00:00")
        stage.field("max_wall").value = "2:00:00"
        await stage.press("enter")
        await stage.shows("max_wall 2:00:00")
        assert path.read_text() == (
            '# ours\n[qos.normal]\nmax_wall = "2:00:00" # short\n'
            '\n[qos.high]\npriority = 10\npreempts = ["normal"]\n'
        )
        await stage.press("g", "X")
        await stage.shows("Remove QoS high from config.toml?")
        await stage.press("y")
        await stage.hides("high")
        assert "high" not in path.read_text()
        await stage.press("Z", "Z", "Z")
        await stage.told("Undone: warpdeck config reload  # undo: [qos.high] priority = 10")
        assert path.read_text() == "# ours\n[qos.normal]\nmax_wall = '1:00:00' # short\n"


async def test_rules_that_somebody_else_has_changed_since_are_not_written_over(folder: Path) -> None:
    async with on_stage(folder, size=(80, 24)) as stage:
        path = Path(stage.cluster.paths.config)
        await stage.press("6", "tab", "tab", "n")
        await stage.type("high")
        stage.field("priority").value = "10"
        await stage.press("enter")
        await stage.shows("▌high")
        theirs = path.read_text() + "# somebody else's\n"
        path.write_text(theirs)
        await stage.press("Z")
        await stage.told("was changed by someone else")
        assert path.read_text() == theirs


async def test_a_partition_is_changed_by_its_form(folder: Path) -> None:
    async with on_stage(folder, size=(100, 30)) as stage:
        await stage.press("6", "n")
        await stage.shows("New partition")
        await stage.type("short")
        stage.field("max_time").value = "1:00:00"
        await stage.press("enter")
        await stage.shows("[Partitions]", "short", "1:00:00")
        await stage.press("enter")
        await stage.shows("Edit partition short")
        stage.field("state").value = "SIDEWAYS"
        await stage.press("enter")
        await stage.shows("SIDEWAYS", "Edit partition short")


async def test_a_what_if_replays_the_past_tells_how_far_it_is_and_what_comes_of_it(folder: Path) -> None:
    home = folder / "past"
    home.mkdir(mode=0o700)
    with pytest.raises(UserError):  # there is no past here
        await what_if.what_if(["--add-gpus", "8"], Paths(str(home)), lambda words: None)
    with pytest.raises(UserError) as wrong:
        await what_if.what_if(["--nodes", "x"], Paths(str(home)), lambda words: None)
    assert wrong.value.message == "argument --nodes: 'x' is not between 1 and 1,000,000"
    await _live(home / "state.db")
    heard: list[str] = []
    found = await what_if.what_if(["--add-gpus", "8"], Paths(str(home)), heard.append)
    assert [(each.name, each.jobs) for each in found.users] == [("ann", JOBS)]
    assert found.users[0].now_waits_s > 0 and found.users[0].then_waits_s < found.users[0].now_waits_s
    assert heard and all(0 < int(words.removesuffix(" %")) <= 100 for words in heard)


async def _live(database: Path) -> None:
    """One node of two GPUs, and jobs of an hour that wanted one each at once."""
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
        Changes(requests=((1, request),), jobs=tuple(jobs), nodes=(node,), next_job_id=JOBS + 1)
    )  # type: ignore[arg-type]
    await store.close()


def test_a_what_if_says_who_gains_and_who_loses() -> None:
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
