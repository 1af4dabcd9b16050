"""What a node's GPUs did a moment ago, over SSH: the driver's words of then, beside the job that had them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
GIB = 1 << 30
LINE = f"util=63 power=480000 temp=66 mem={80 * GIB}"
BUSY = f"driver 550.54.15\ngpu 0 {LINE}\ngpu 1 {LINE}\n"


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    lab.show_driver(2, BUSY)
    target = f"root@{lab.address(2)}"
    shared_home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    yield shared_home
    shared_home.ok("node", "rm", "--force", "gpu2")
    lab.show_gpus(2)


def then(home: Home, at: str = "now-1second") -> dict[str, Any]:
    row: dict[str, Any] = home.json("node", "show", "gpu2", "--at", at)
    return row


def told(home: Home, at: str, *, step_s: float) -> dict[str, Any]:
    """What the node was like then, once its agent tells it that finely."""
    found: list[dict[str, Any]] = []

    def tells() -> bool:
        found.append(then(home, at))
        return bool(found[-1]["step_s"] == step_s)

    eventually(tells, what=f"{at} is known in steps of {step_s:.0f} s")
    return found[-1]


def test_a_moment_ago_is_told_by_the_node_and_by_who_ran_there(home: Home, short_tmp: Path) -> None:
    words = ("submit", "--no-snapshot", "--gpus=1", "--wrap", "sleep 1000")
    job = str(home.json(*words, cwd=short_tmp)["job_id"])

    def ran() -> dict[str, Any] | None:
        row = then(home)
        return row if row["jobs"] == [job] and row["step_s"] == 1.0 else None

    row = eventually(ran, what="it ran a second ago")
    assert row is not None
    (held,) = [gpu for gpu in row["gpus"] if gpu["job"]]
    assert (row["unknown"], held["job"]) == ("", job)
    values = [held[name] for name in ("util_pct", "power_w", "temp_c", "mem_used_bytes")]
    assert values == [63, 480.0, 66, 0] and row["mem_used_bytes"] and row["cpu_pct"] is not None
    moment = f"uts{row['begin'] + 1:.0f}"  # wholly over: the job may have begun within the second

    def is_printed() -> bool:
        printed = home.ok("screen", "gpus", "--plain", "--at", moment)
        return all(word in printed for word in (" ago, averages over", "63%*", "480W*", "66'*"))

    eventually(is_printed, what="that second, or the ten around it, with the job's mark")
    assert "averages over" in home.ok("node", "ls", "--at", moment)
    before = home.ok("node", "ls", "--at", "now-2hours")
    assert "it was not yet a node of this cluster; data starts at" in before and f" {job} " not in before
    home.ok("cancel", job)


def test_a_node_that_hangs_is_said_so_and_holds_nobody_up(home: Home, lab: Lab) -> None:
    eventually(lambda: then(home)["step_s"], what="it has measured")
    pid = lab.agent(2)
    lab.on(2, "kill", "-STOP", str(pid))
    try:
        assert then(home)["unknown"].startswith("gpu2 does not answer: ")
        assert "gpu2 does not answer" in home.ok("screen", "gpus", "--plain", "--at", "now-1minute")
    finally:
        lab.on(2, "kill", "-CONT", str(pid))
    eventually(lambda: then(home)["step_s"], what="it answers again")


def test_a_moment_is_known_by_a_controller_that_has_just_begun_and_by_an_agent_that_follows(
    home: Home, lab: Lab
) -> None:
    row = told(home, "now-1second", step_s=1.0)
    home.kill_controller()
    home.ok("up")
    told(home, f"uts{row['begin']:.0f}", step_s=1.0)
    minute, uuid = int(row["begin"] // 60) - 5, row["gpus"][0]["uuid"]
    line = f'[{minute},{{"":{{"cpu_pct":1.0}},"{uuid}":{{"gpu_util_pct":12.0,"gpu_power_w":345.6}}}}]'
    pid = lab.agent(2)
    folder = lab.on(
        2, "sh", "-c", f"tr '\\0' '\\n' </proc/{pid}/cmdline | grep -A1 -x -e --dir | tail -n1"
    ).strip()
    lab.on(2, "sh", "-c", f"echo '{line}' >>{folder}/minutes; kill -9 {pid}")
    first, second = told(home, f"uts{minute * 60 + 30}", step_s=60.0)["gpus"]
    assert (first["util_pct"], first["power_w"]) == (12, 345.6)
    assert (first["temp_c"], second["util_pct"]) == (None, None), "nothing is made up"


def test_drains_strangers_and_sharers_of_a_moment_are_known_to_a_controller_that_follows(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    (home.path / "config.toml").write_text("[gpus]\nshare_start_s = 1\n")
    home.ok("config", "reload")
    share = ("submit", "--no-snapshot", "--gpus=0.25", "--wrap", "sleep 1000")
    jobs = [str(home.json(*share, cwd=short_tmp)["job_id"]) for _ in range(2)]
    stranger = lab.on(2, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").strip()
    try:
        lab.show_driver(2, f"{BUSY}proc 1 pid={stranger} mem={3 * GIB} type=C\n")
        home.ok("node", "drain", "--gpu", "0", "gpu2", "loose cable")
        home.ok("node", "drain", "gpu2", "new kernel")

        def all_is_there() -> dict[str, Any] | None:
            row = then(home)
            seen = sum(len(gpu["processes"]) for gpu in row["gpus"])
            return row if row["state"] == "draining" and seen and len(row["jobs"]) == 2 else None

        row = eventually(all_is_there, what="drains, stranger and jobs of a second ago")
        assert row is not None
        moment = f"uts{row['begin'] + 1:.0f}"
    finally:
        lab.show_driver(2, BUSY)
        lab.on(2, "kill", stranger)
    home.ok("cancel", *jobs)
    home.ok("node", "resume", "gpu2")
    home.kill_controller()
    home.ok("up")
    eventually(lambda: not then(home)["unknown"], what="the node is back")
    row = then(home, moment)
    assert (row["state"], row["reason"], sorted(row["jobs"])) == ("draining", "new kernel", sorted(jobs))
    shared, other = row["gpus"]
    assert shared["blocked"] == "drained: loose cable"
    assert [(each["job"], each["share_pct"]) for each in shared["sharers"]] == [(job, 25) for job in jobs]
    assert other["blocked"] == "held by root outside the queue (3.0 GiB)"
    assert [(each["user"], each["mem_bytes"]) for each in other["processes"]] == [("root", 3 * GIB)]
    printed = home.ok("screen", "node", "gpu2", "--plain", "--at", moment)
    assert all(words in printed for words in ("draining", "new kernel", "loose cable", "(25 %)", "no job"))
    assert row["untold"] == []
    eventually(
        lambda: then(home)["state"] == "idle", what="a second ago it was resumed, and its jobs were gone"
    )
