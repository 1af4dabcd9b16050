"""Jobs that are preempted and continue later, with the real controller, agent, processes and a real checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.home import Home
from tests.support.waiting import eventually

RULES = (
    '[scheduler]\npreempt_by = "qos"\npreempt_mode = "{mode}"\n[qos.low]\n[qos.high]\npreempts = ["low"]\n'
)
TRAIN = """#!/bin/sh
#SBATCH --job-name=train --qos=low --exclusive --output=train.out --open-mode=append
echo "start ${SLURM_RESTART_COUNT:-first} from $(cat checkpoint 2>/dev/null || echo nothing)"
if [ -e checkpoint ]; then exit 0; fi
trap 'echo 7 >checkpoint; echo saved; exit 1' TERM
touch @READY@
while :; do sleep 0.05; done
"""


def start_site(home: Home, mode: str) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text(RULES.format(mode=mode))
    home.ok("up")
    home.wait_for_idle_node()


def submit(home: Home, *argv: str, cwd: Path | None = None) -> int:
    return int(home.json("submit", *argv, cwd=cwd)["job_id"])


def submit_urgent(home: Home, command: str = "true") -> int:
    """Submit a job that needs the whole node and may preempt others."""
    return submit(home, "--no-snapshot", "-q", "high", "--exclusive", "--wrap", command)


def wait_for_state(home: Home, job: int, state: str) -> None:
    eventually(lambda: home.state(job) == state, what=f"job {job} is {state}")


def test_a_preempted_job_saves_its_work_and_resumes_from_it(home: Home) -> None:
    start_site(home, "requeue")
    code, ready = home.path.parent / "code", home.path.parent / "ready"
    code.mkdir()
    (code / "train.sh").write_text(TRAIN.replace("@READY@", str(ready)))
    for git_argv in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *git_argv], cwd=code, check=True)
    train = submit(home, "--require-snapshot", "train.sh", cwd=code)
    eventually(ready.exists, what="the trap is set")
    other = submit_urgent(home)
    wait_for_state(home, other, "COMPLETED")
    wait_for_state(home, train, "COMPLETED")
    row = home.job(train)
    assert (row["restarts"], row["exit_code"]) == (1, "0:0")
    output = (code / "train.out").read_text().splitlines()
    assert sum(line.endswith(" DUE TO PREEMPTION ***") for line in output) == 1
    script_lines = [line for line in output if not line.startswith("slurmstepd: ")]
    # The shell prints this about its child.
    assert [line for line in script_lines if line != "Terminated"] == [
        "start first from nothing",
        "saved",
        "start 1 from 7",
    ]
    assert not (code / "checkpoint").exists()
    events = [event["text"] for event in home.json("show", str(train))["events"]]
    assert any("preempted (requeue): resources needed by job" in text for text in events), events


def is_stopped(pid: str) -> bool:
    """Return whether a process is stopped.

    A shell that was stopped while it starts a command (vfork) waits for that child, which is stopped.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # The process has just ended.
        return False
    return state == "T" or (state == "D" and bool(children) and all(map(is_stopped, children)))


def start_gated_job(home: Home, *options: str) -> tuple[int, str, Path]:
    """Start a job that runs until its gate opens, and return its id, its process and the gate."""
    folder = home.path.parent
    gate, pid = folder / "gate", folder / "pid"
    command = f"echo $$ >{pid}.new; mv {pid}.new {pid}; while [ ! -e {gate} ]; do sleep 0.05; done"
    job = submit(home, "--no-snapshot", *options, "--wrap", command)
    eventually(pid.exists, what="the job runs")
    wait_for_state(home, job, "RUNNING")
    return job, pid.read_text().strip(), gate


def test_a_suspended_job_stops_and_continues_by_itself(home: Home) -> None:
    start_site(home, "suspend")
    job, pid, gate = start_gated_job(home, "-q", "low", "-c", str(os.cpu_count() or 1))
    hold = home.path.parent / "hold"
    other = submit_urgent(home, f"while [ ! -e {hold} ]; do sleep 0.05; done")
    wait_for_state(home, other, "RUNNING")
    assert home.state(job) == "SUSPENDED"
    eventually(lambda: is_stopped(pid), what="the job is stopped")
    hold.touch()
    wait_for_state(home, job, "RUNNING")
    eventually(lambda: not is_stopped(pid), what="the job continues")
    gate.touch()
    wait_for_state(home, job, "COMPLETED")
    assert home.job(job)["restarts"] == 0


def test_a_job_suspended_by_an_admin_stays_suspended_and_can_be_cancelled(home: Home) -> None:
    job, pid, _ = start_gated_job(home)
    home.ok("suspend", str(job))
    eventually(lambda: is_stopped(pid), what="the job is stopped")
    home.kill_controller()
    assert home.state(job) == "SUSPENDED"
    home.ok("resume", str(job))
    eventually(lambda: not is_stopped(pid), what="the job continues")
    home.ok("suspend", str(job))
    eventually(lambda: is_stopped(pid), what="the job is stopped again")
    home.ok("cancel", str(job))
    wait_for_state(home, job, "CANCELLED")
    assert home.run("resume", str(job)).returncode == 1


def test_a_script_is_warned_before_its_time_limit(home: Home) -> None:
    """The warning comes six seconds after the start, so that the script can set its trap even on a busy
    machine.
    """
    script = home.path.parent / "warned.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -t 1 --signal=B:USR1@54 -o warned.out\n"
        "trap 'echo saved; exit 0' USR1\nwhile :; do sleep 0.05; done\n"
    )
    job = submit(home, "--no-snapshot", str(script))
    wait_for_state(home, job, "COMPLETED")
    assert (home.path.parent / "warned.out").read_text() == "saved\n"
