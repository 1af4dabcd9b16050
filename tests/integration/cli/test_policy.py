"""prio, share, partitions, reservations, qos, why and dry runs with a real controller of a configured
site.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.agent import USER
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.cli.main import main

Run = Callable[..., tuple[int, str, str]]
SITE = """
[scheduler]
default_partition = "all"
[scheduler.weights]
age = 1000
qos = 200
tres = "cpu=100"
[partitions.all]
max_time = "2-00:00:00"
[partitions.staff]
max_time = "1:00:00"
allow_groups = ["nobody-is-in-it"]
deny_qos = ["urgent"]
max_nodes = 1
[qos.normal]
max_tres_per_user = "cpu=4,mem=64G"
max_wall = "12:00:00"
[qos.urgent]
priority = 10
preempts = ["normal"]
preempt_mode = "suspend"
[accounts.lab]
quota = "cpu=2"
users.root = { shares = 3 }
users.ann = {}
[reservations.works]
nodes = "gpu[01-02]"
start = 2100-01-01T08:00:00
duration = "2:00:00"
maintenance = true
""".replace("users.root", f"users.{USER}")


def home_of(folder: str, text: str) -> Home:
    home = Home(Path(folder) / "home")
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text(text)
    home.ok("up")
    home.wait_for_idle_node()
    return home


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A controller with SITE, one job that holds the whole machine and one that waits."""
    with tempfile.TemporaryDirectory(prefix="wdp", dir="/tmp") as folder:
        home = home_of(folder, SITE)
        try:
            wide = ("--no-snapshot", "--exclusive", "-t", "60", "--wrap", "sleep 600")
            home.json("submit", *wide)
            eventually(lambda: home.state(1) == "RUNNING", what="the first job runs")
            home.json("submit", *wide)
            yield home
        finally:
            home.close()


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_why_shows_the_start_the_jobs_ahead_and_the_reason(run: Run) -> None:
    code, out, _ = run("why", "2")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("starts about "), out
    assert lines[1].startswith("Resources: needs ")
    assert run("why", "1")[1] == "job 1 is not waiting: RUNNING\n"


def test_show_lists_the_jobs_ahead_of_a_waiting_job(run: Run, site: Home) -> None:
    third = site.json("submit", "--no-snapshot", "--exclusive", "-t", "60", "--wrap", "true")["job_id"]
    shown = dict(line.strip().split("  ", 1) for line in run("show", str(third))[1].splitlines()[:12])
    assert shown["ahead"] == f"1 job (2 of {USER})" and shown["priority"]
    assert shown["account"] == "lab, partition all, QoS normal"
    assert "ahead" not in run("show", "1")[1]
    run("cancel", str(third))


def test_a_dry_run_shows_the_start_and_submits_nothing(run: Run) -> None:
    before = run("queue", "--json", "--all")[1]
    code, out, err = run("submit", "--dry-run", "-t", "10", "--wrap", "true")
    assert (code, err) == (0, "")
    assert out.startswith("starts about ") and f"ahead in the queue: 1 job (2 of {USER})" in out
    code, out, _ = run("submit", "--test-only", "--json", "-t", "10", "--wrap", "true")
    found = json.loads(out)
    assert code == 0 and found["verdict"] == "later" and found["expected_start"] and found["notes"] == []
    assert len(json.loads(run("queue", "--json", "--all")[1])) == len(json.loads(before))


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        (["--gpus", "999"], "never: the job requests 999 GPUs"),
        (["-t", "3-0"], "never: requests 3 d; partition all allows 2 d"),
        (["-p", "nowhere"], "never: there is no partition nowhere"),
        (["-p", "staff"], f"never: partition staff does not admit user {USER}"),
        (["-q", "best"], "never: there is no QoS best"),
        (["-A", "other"], "never: there is no account other"),
    ],
)
def test_a_dry_run_of_an_impossible_request_fails_with_the_reason(
    run: Run, options: list[str], argv: str
) -> None:
    code, out, _ = run("submit", "--dry-run", *options, "--wrap", "true")
    assert code == 1 and out.startswith(argv), out
    assert len(out.splitlines()) >= 3, "the next step is printed too"
    code, out, _ = run("submit", "--dry-run", "--json", *options, "--wrap", "true")
    assert code == 1 and json.loads(out)["verdict"] == "never"


def test_prio_shows_the_parts_and_their_sum(run: Run) -> None:
    code, out, _ = run("prio")
    head, line, last = out.splitlines()
    titles = ["JOBID", "USER", "ACCOUNT", "PARTITION", "QOS", "PRIORITY", "+AGE", "+QOS", "+CPU", "-NICE"]
    assert code == 0 and head.split() == titles
    assert line.split()[:4] == ["2", USER, "lab", "all"]
    assert last.startswith("priority = age (0 to 1000) + qos (0 to 200) + cpu (0 to 100) - nice")
    assert [row["label"] for row in json.loads(run("prio", "--json", "2")[1])["jobs"]] == ["2"]
    code, _, err = run("prio", "1")
    assert code == 1 and "job 1 is not waiting: RUNNING" in err


def test_share_shows_the_account_tree(run: Run) -> None:
    _, out, _ = run("share")
    rows = table(out)
    assert rows[0][:4] == ["ACCOUNT", "USER", "SHARES", "NORM_SHARES"]
    assert rows[1][0] == "lab" and rows[1][-1] == "cpu=2"
    assert {row[1]: row[3] for row in rows[2:4]} == {USER: "0.7500", "ann": "0.2500"}
    assert "usage is in billing-seconds; it decays with a half-life of 7-00:00:00" in out


def test_partitions_reservations_and_qos_are_shown_as_tables(run: Run) -> None:
    head, *lines = table(run("partitions")[1])
    assert head[:4] == ["PARTITION", "STATE", "TIME_LIMIT", "NODES"]
    assert [line[:4] for line in lines[:2]] == [
        ["all*", "UP", "2-00:00:00", "1"],
        ["staff", "UP", "1:00:00", "1"],
    ]
    text = run("partitions")[1]
    assert "everybody" in text and "group nobody-is-in-it, not QoS urgent" in text
    assert "at most 1 node " in text
    [works] = table(run("reservations", "--noheader")[1])
    assert works[:2] == ["works", "future"] and works[4:] == [
        "2:00:00",
        "gpu[01-02]",
        "nobody:",
        "maintenance",
    ]
    text = run("qos")[1]
    assert "max_tres_per_user=cpu=4,mem=64G max_wall=12:00:00" in text
    assert table(text)[1][:4] == ["urgent", "10", "normal", "suspend"]


def test_queue_start_puts_the_next_start_first(run: Run, site: Home) -> None:
    held = site.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"]
    _, out, _ = run("queue", "--start", "--noheader")
    assert [line[0] for line in table(out)] == ["2", str(held)]
    run("cancel", str(held))


def test_a_site_without_rules_gets_a_hint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="wdq", dir="/tmp") as folder:
        home = home_of(folder, "")
        monkeypatch.setenv("WARPDECK_HOME", str(home.path))
        try:
            home.json("submit", "--no-snapshot", "--hold", "--wrap", "true")
            for verb, table_name in (
                ("prio", "[scheduler.weights]"),
                ("share", "[accounts.NAME]"),
                ("partitions", "[partitions.NAME]"),
                ("reservations", "[reservations.NAME]"),
                ("qos", "[qos.NAME]"),
            ):
                assert main([verb]) == 0
                err = capsys.readouterr().err
                assert table_name in err and str(home.path / "config.toml") in err
                assert main([verb, "--json"]) == 0
                json.loads(capsys.readouterr().out)
        finally:
            home.close()


def test_reservations_can_be_created_and_removed_at_run_time(run: Run) -> None:
    requested = ("create", "class", "--nodes", "ALL", "--start", "2101-01-01T08:00", "--duration", "3:00:00")
    assert run("reservation", *requested, "--accounts", "lab")[:2] == (0, "created reservation class: ALL\n")
    lines = table(run("reservations", "--noheader")[1])
    assert [line[:2] for line in lines] == [["works", "future"], ["class", "future"]]
    assert lines[1][4] == "3:00:00" and lines[1][-2:] == ["account", "lab"]
    code, _, err = run("reservation", *requested, "--maintenance")
    assert (code, err.splitlines()[0]) == (1, "warpdeck: reservation class already exists")
    assert run("reservation", "rm", "class")[0] == 0
    code, _, err = run("reservation", "rm", "works")
    assert code == 1 and "is defined in config.toml" in err
    code, _, err = run("reservation", "rm", "class")
    assert code == 1 and "there is no reservation class" in err
    weekly = ("create", "w", *requested[2:], "--users", USER, "--flags", "weekly,IGNORE_JOBS")
    assert run("reservation", *weekly)[0] == 0
    assert table(run("reservations", "--noheader")[1])[1][4:6] == ["3:00:00", "weekly"]
    refused = (
        ("NOSUCH", "unknown reservation flags: NOSUCH"),
        ("REPLACE", "REPLACE has no effect on named nodes"),
        ("DAILY,WEEKLY", "a reservation cannot be both daily and weekly"),
    )
    for flags, text in refused:
        assert text in run("reservation", *weekly[:-1], flags)[2]
    assert "there is no node n9" in run("reservation", "create", "x", "--nodes", "n9", "--maintenance")[2]


def test_parts_of_nodes_and_licenses_can_be_reserved(run: Run) -> None:
    when = ("--start", "2099-01-01T08:00", "--duration", "3:00:00", "--users", USER)
    node = json.loads(run("node", "ls", "--json")[1])[0]
    done = run("reservation", "create", "part", "--tres", "cpu=1", *when)
    assert done[:2] == (0, "created reservation part: cpu=1\n"), (done, node)
    part = json.loads(run("reservations", "--json")[1])["reservations"][0]
    assert part["parts"] == [{"node": node["name"], "cpus": 1, "gpus": []}]
    assert "1 CPU of" in run("reservations", "--noheader")[1]
    named = ("create", "named", "--nodes", node["name"], *when)
    refused = (
        (("--tres", f"cpu={node['cpus']}"), "not enough CPUs and GPUs"),
        (("--tres", "gres/gpu=99"), "not enough CPUs and GPUs"),
        (("--tres", "mem=5"), "TRES type 'mem' not supported with reservations"),
        (("--tres", "cpu=1,node=2"), "node= is only for CPUs and GPUs on nodes"),
        (("--licenses", "nosuch:2"), "fewer than 2 licenses of nosuch exist"),
    )
    for argv, message in refused:
        assert message in run("reservation", *named, *argv)[2], argv
    assert run("reservation", "rm", "part")[0] == 0
