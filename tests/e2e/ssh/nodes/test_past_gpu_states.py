"""The state of a node's GPUs at a past moment, over SSH: the driver's values and the jobs on the GPUs."""

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
GPU_LINE = f"util=63 power=480000 temp=66 mem={80 * GIB}"
BUSY = f"driver 550.54.15\ngpu 0 {GPU_LINE}\ngpu 1 {GPU_LINE}\n"


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    lab.show_driver(2, BUSY)
    target = f"root@{lab.address(2)}"
    shared_home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    yield shared_home
    shared_home.ok("node", "rm", "--force", "gpu2")
    lab.show_gpus(2)


def state_at(home: Home, at: str = "now-1second") -> dict[str, Any]:
    row: dict[str, Any] = home.json("node", "show", "gpu2", "--at", at)
    return row


def state_with_step(home: Home, at: str, *, step_s: float) -> dict[str, Any]:
    """Return the past state of the node once it is available with this resolution."""
    states: list[dict[str, Any]] = []

    def is_available() -> bool:
        states.append(state_at(home, at))
        return bool(states[-1]["step_s"] == step_s)

    eventually(is_available, what=f"{at} is known in steps of {step_s:.0f} s")
    return states[-1]


def test_the_past_state_of_a_node_shows_its_values_and_its_job(home: Home, short_tmp: Path) -> None:
    argv = ("submit", "--no-snapshot", "--gpus=1", "--wrap", "sleep 1000")
    job = str(home.json(*argv, cwd=short_tmp)["job_id"])

    def job_ran() -> dict[str, Any] | None:
        row = state_at(home)
        return row if row["jobs"] == [job] and row["step_s"] == 1.0 else None

    row = eventually(job_ran, what="the job ran a second ago")
    assert row is not None
    (gpu,) = [gpu_row for gpu_row in row["gpus"] if gpu_row["job"]]
    assert (row["unknown"], gpu["job"]) == ("", job)
    values = [gpu[name] for name in ("util_pct", "power_w", "temp_c", "mem_used_bytes")]
    assert values == [63, 480.0, 66, 0] and row["mem_used_bytes"] and row["cpu_pct"] is not None
    # This second has passed completely. The job may have started within the second before.
    moment = f"uts{row['begin'] + 1:.0f}"

    def is_printed() -> bool:
        printed = home.ok("screen", "gpus", "--plain", "--at", moment)
        return all(word in printed for word in (" ago, averages over", "63% used", "480 W", "66°C"))

    eventually(is_printed, what="the values of that second or of the ten around it")
    assert "averages over" in home.ok("node", "ls", "--at", moment)
    before = home.ok("node", "ls", "--at", "now-2hours")
    assert "it was not yet a node of this cluster; data starts at" in before and f" {job} " not in before
    home.ok("cancel", job)


def test_a_hanging_node_is_reported_and_delays_no_request(home: Home, lab: Lab) -> None:
    eventually(lambda: state_at(home)["step_s"], what="values are measured")
    pid = lab.agent(2)
    lab.on(2, "kill", "-STOP", str(pid))
    try:
        assert state_at(home)["unknown"].startswith("gpu2 does not answer: ")
        assert "gpu2 does not answer" in home.ok("screen", "gpus", "--plain", "--at", "now-1minute")
    finally:
        lab.on(2, "kill", "-CONT", str(pid))
    eventually(lambda: state_at(home)["step_s"], what="the node answers again")


def test_past_states_survive_a_restart_of_the_controller_and_the_agent(home: Home, lab: Lab) -> None:
    row = state_with_step(home, "now-1second", step_s=1.0)
    home.kill_controller()
    home.ok("up")
    state_with_step(home, f"uts{row['begin']:.0f}", step_s=1.0)
    minute, uuid = int(row["begin"] // 60) - 5, row["gpus"][0]["uuid"]
    line = f'[{minute},{{"":{{"cpu_pct":1.0}},"{uuid}":{{"gpu_util_pct":12.0,"gpu_power_w":345.6}}}}]'
    pid = lab.agent(2)
    folder = lab.on(
        2, "sh", "-c", f"tr '\\0' '\\n' </proc/{pid}/cmdline | grep -A1 -x -e --dir | tail -n1"
    ).strip()
    lab.on(2, "sh", "-c", f"echo '{line}' >>{folder}/minutes; kill -9 {pid}")
    first, second = state_with_step(home, f"uts{minute * 60 + 30}", step_s=60.0)["gpus"]
    assert (first["util_pct"], first["power_w"]) == (12, 345.6)
    assert (first["temp_c"], second["util_pct"]) == (None, None), "missing values stay unknown"


def test_past_drains_foreign_processes_and_shares_survive_a_controller_restart(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    (home.path / "config.toml").write_text("[gpus]\nshare_start_s = 1\n")
    home.ok("config", "reload")
    submit_argv = ("submit", "--no-snapshot", "--gpus=0.25", "--wrap", "sleep 1000")
    jobs = [str(home.json(*submit_argv, cwd=short_tmp)["job_id"]) for _ in range(2)]
    foreign_pid = lab.on(2, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").strip()
    try:
        lab.show_driver(2, f"{BUSY}proc 1 pid={foreign_pid} mem={3 * GIB} type=C\n")
        home.ok("node", "drain", "--gpu", "0", "gpu2", "loose cable")
        home.ok("node", "drain", "gpu2", "new kernel")

        def all_are_recorded() -> dict[str, Any] | None:
            row = state_at(home)
            process_count = sum(len(gpu_row["processes"]) for gpu_row in row["gpus"])
            return row if row["state"] == "draining" and process_count and len(row["jobs"]) == 2 else None

        row = eventually(all_are_recorded, what="drains, foreign process and jobs of a second ago")
        assert row is not None
        moment = f"uts{row['begin'] + 1:.0f}"
    finally:
        lab.show_driver(2, BUSY)
        lab.on(2, "kill", foreign_pid)
    home.ok("cancel", *jobs)
    home.ok("node", "resume", "gpu2")
    home.kill_controller()
    home.ok("up")
    eventually(lambda: not state_at(home)["unknown"], what="the node is back")
    row = state_at(home, moment)
    assert (row["state"], row["reason"], sorted(row["jobs"])) == ("draining", "new kernel", sorted(jobs))
    shared, other = row["gpus"]
    assert shared["blocked"] == "drained: loose cable"
    assert [(entry["job"], entry["share_pct"]) for entry in shared["sharers"]] == [(job, 25) for job in jobs]
    assert other["blocked"] == "held by root outside the queue (3.0 GiB)"
    assert [(entry["user"], entry["mem_bytes"]) for entry in other["processes"]] == [("root", 3 * GIB)]
    printed = home.ok("screen", "node", "gpu2", "--plain", "--at", moment)
    assert all(text in printed for text in ("draining", "new kernel", "loose cable", "(25 %)", "no job"))
    assert row["untold"] == []
    eventually(lambda: state_at(home)["state"] == "idle", what="a second ago the node was resumed and idle")
