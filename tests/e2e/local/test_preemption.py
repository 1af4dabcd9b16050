"""Jobs that make room for others and come back: real controller, real agent, real processes, a real checkout."""

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


def begin(home: Home, mode: str) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text(RULES.format(mode=mode))
    home.ok("up")
    home.wait_for_idle_node()


def submit(home: Home, *words: str, cwd: Path | None = None) -> int:
    return int(home.json("submit", *words, cwd=cwd)["job_id"])


def urgent(home: Home, command: str = "true") -> int:
    """A job that needs the whole node and may push others aside."""
    return submit(home, "--no-snapshot", "-q", "high", "--exclusive", "--wrap", command)


def reaches(home: Home, job: int, state: str) -> None:
    eventually(lambda: home.state(job) == state, what=f"job {job} is {state}")


def test_a_preempted_job_saves_its_work_and_goes_on_from_it(home: Home) -> None:
    begin(home, "requeue")
    code, ready = home.path.parent / "code", home.path.parent / "ready"
    code.mkdir()
    (code / "train.sh").write_text(TRAIN.replace("@READY@", str(ready)))
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=code, check=True)
    train = submit(home, "--require-snapshot", "train.sh", cwd=code)
    eventually(ready.exists, what="the trap is set")
    other = urgent(home)
    reaches(home, other, "COMPLETED")
    reaches(home, train, "COMPLETED")
    row = home.job(train)
    assert (row["restarts"], row["exit_code"]) == (1, "0:0")
    told = (code / "train.out").read_text().splitlines()
    assert sum(line.endswith(" DUE TO PREEMPTION ***") for line in told) == 1
    own = [line for line in told if not line.startswith("slurmstepd: ")]
    assert [line for line in own if line != "Terminated"] == [  # a shell tells so of its child
        "start first from nothing",
        "saved",
        "start 1 from 7",
    ]
    assert not (code / "checkpoint").exists()
    events = [event["text"] for event in home.json("show", str(train))["events"]]
    assert any("preempted (requeue): resources needed by job" in text for text in events), events


def stopped(pid: str) -> bool:
    """Whether it stands still. A shell that was stopped while it starts a command (vfork) waits for that child, which is."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # one that has just ended
        return False
    return state == "T" or (state == "D" and bool(children) and all(map(stopped, children)))


def counting(home: Home, *options: str) -> tuple[int, str, Path]:
    """A job that runs until its gate opens; its id, its process, the gate."""
    folder = home.path.parent
    gate, pid = folder / "gate", folder / "pid"
    command = f"echo $$ >{pid}.new; mv {pid}.new {pid}; while [ ! -e {gate} ]; do sleep 0.05; done"
    job = submit(home, "--no-snapshot", *options, "--wrap", command)
    eventually(pid.exists, what="it runs")
    reaches(home, job, "RUNNING")
    return job, pid.read_text().strip(), gate


def test_a_suspended_job_stands_still_and_goes_on_by_itself(home: Home) -> None:
    begin(home, "suspend")
    job, pid, gate = counting(home, "-q", "low", "-c", str(os.cpu_count() or 1))
    hold = home.path.parent / "hold"
    other = urgent(home, f"while [ ! -e {hold} ]; do sleep 0.05; done")
    reaches(home, other, "RUNNING")
    assert home.state(job) == "SUSPENDED"
    eventually(lambda: stopped(pid), what="it is stopped")
    hold.touch()
    reaches(home, job, "RUNNING")
    eventually(lambda: not stopped(pid), what="it goes on")
    gate.touch()
    reaches(home, job, "COMPLETED")
    assert home.job(job)["restarts"] == 0


def test_an_admin_suspends_a_job_which_waits_for_the_admin_and_can_be_cancelled(home: Home) -> None:
    job, pid, _ = counting(home)
    home.ok("suspend", str(job))
    eventually(lambda: stopped(pid), what="it is stopped")
    home.kill_controller()
    assert home.state(job) == "SUSPENDED"
    home.ok("resume", str(job))
    eventually(lambda: not stopped(pid), what="it goes on")
    home.ok("suspend", str(job))
    eventually(lambda: stopped(pid), what="it is stopped again")
    home.ok("cancel", str(job))
    reaches(home, job, "CANCELLED")
    assert home.run("resume", str(job)).returncode == 1


def test_a_script_is_warned_before_its_limit(home: Home) -> None:
    """Six seconds after its start: time enough to set a trap on a busy machine."""
    script = home.path.parent / "warned.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -t 1 --signal=B:USR1@54 -o warned.out\n"
        "trap 'echo saved; exit 0' USR1\nwhile :; do sleep 0.05; done\n"
    )
    job = submit(home, "--no-snapshot", str(script))
    reaches(home, job, "COMPLETED")
    assert (home.path.parent / "warned.out").read_text() == "saved\n"
