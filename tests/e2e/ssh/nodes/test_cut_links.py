"""Packets that get lost: a link cut for less and for more than its time-out, under everything that can be going on over it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.terminal import AtTerminal
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.lab
BACK_S = 120.0
"""Until a dead link is noticed, some 20 s, and pauses between attempts that take as long."""
PORT = 8770
TASK = """
import itertools, os, socket, sys, threading, time
gate, ticks, port = sys.argv[1:]
rank = os.environ["SLURM_PROCID"]

def serve():
    for connection in iter(lambda: listener.accept()[0], None):
        threading.Thread(target=count, args=(connection,), daemon=True).start()

def count(connection):
    try:
        for number in itertools.count():
            connection.sendall(b"%d\\n" % number)
            time.sleep(0.05)
    except OSError:
        connection.close()

if rank == "1":
    listener = socket.create_server(("127.0.0.1", int(port)))
    threading.Thread(target=serve, daemon=True).start()
number = 0
while not os.path.exists(gate):
    number += 1
    print(number, flush=True)
    with open(ticks + rank, "a") as file:
        file.write("tick\\n")
    time.sleep(0.05)
print("over", number, flush=True)
sys.exit(5)
"""
SCRIPT = "#!/bin/sh\nsrun -l {python} task.py {folder}/gate {folder}/ticks {port}\necho code $?\nexit 6\n"


SHORT_TASKS, BEFORE_CUT = 200, 100
SHORT_TASK = """
[ $SLURM_ARRAY_TASK_ID -le {before} ] || until [ -e more ]; do sleep 0.05; done
echo $SLURM_ARRAY_TASK_ID >>short
sleep 0.05
"""


class Busy:
    """Two nodes with all that can go on over a link: a batch job on the first whose srun has a task on each, and short tasks
    of an array that are handed to it ahead of time; on the second a session at a terminal and a port that is forwarded."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        (folder / "task.py").write_text(TASK)
        script = SCRIPT.format(python=sys.executable, folder=folder, port=PORT)
        (folder / "job.sh").write_text(script)
        words = ["submit", "--no-snapshot", "-N2", "-n2", "-o", "out", "job.sh"]
        self.job = str(home.json(*words, cwd=folder)["job_id"])
        eventually(lambda: self.ticks(1) and self.ticks(0), what=f"its tasks run: {home.job(self.job)}")
        self.session = AtTerminal(home, "run", "-w", "gpu2", "--pty", "env", "PS1=> ", "sh")
        self.session.until("> ")
        self.session_job = str(max(row["id"] for row in home.json("queue")))
        words = ["submit", "--no-snapshot", f"--array=1-{SHORT_TASKS}", "-w", "gpu1", "-o", "short.%a"]
        command = SHORT_TASK.format(before=BEFORE_CUT)
        self.array = home.json(*words, "--wrap", command, cwd=folder)["job_id"]
        self.forward = subprocess.Popen(
            [sys.executable, "-m", "warpdeck.cli.main", "forward", self.job, f"{PORT}:0", "--node", "gpu2"],
            env=home.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.forward.stdout is not None
        self.local_port = int(self.forward.stdout.readline().split()[0].rpartition(":")[2])

    def ticks(self, rank: int) -> int:
        path = self.folder / f"ticks{rank}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def shorts(self) -> list[int]:
        """Which of the short tasks have run, in that order."""
        path = self.folder / "short"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def hurry(self) -> None:
        """From here on short tasks follow one another."""
        (self.folder / "more").touch()
        some = BEFORE_CUT + 10
        eventually(lambda: len(self.shorts()) > some, timeout_s=BACK_S, what="short tasks run")

    def goes_on(self) -> None:
        """The tasks tick a while longer: far less than a link's time-out, on a busy machine too."""
        before = self.ticks(0), self.ticks(1)
        eventually(lambda: self.ticks(0) > before[0] + 10 and self.ticks(1) > before[1] + 10, what="it ticks")

    def dial(self) -> socket.socket:
        """A connection to the task's port, on which it counts."""
        return socket.create_connection(("127.0.0.1", self.local_port), timeout=WAIT_S)

    def counts(self) -> bool:
        """Whether a new connection reaches the task."""
        try:
            with self.dial() as link:
                return link.recv(1) == b"0"
        except OSError:
            return False

    def ends_well(self) -> None:
        """Nothing that the tasks said is missing or came twice; the codes are those of the tasks and the script."""
        (self.folder / "gate").touch()
        eventually(
            lambda: self.home.job(self.job)["end"], timeout_s=BACK_S, what=f"{self.home.job(self.job)}"
        )
        self.shorts_end_well()
        row = self.home.job(self.job)
        assert (row["state"], row["exit_code"], row["restarts"]) == ("FAILED", "6:0", 0)
        out = self.folder / "out"
        eventually(lambda: "code 5" in out.read_text(), what="the whole output is there")
        lines = out.read_text().splitlines()
        for rank in (0, 1):
            wanted = [*map(str, range(1, self.ticks(rank) + 1)), f"over {self.ticks(rank)}"]
            assert [line[3:] for line in lines if line.startswith(f"{rank}: ")] == wanted

    def shorts_end_well(self) -> None:
        """Each of them has run, and run once."""

        def rows() -> list[dict[str, object]]:
            found: list[dict[str, object]] = self.home.json("queue", "--all")
            return [row for row in found if row["array_job_id"] == self.array]

        eventually(lambda: all(row["end"] for row in rows()), timeout_s=BACK_S, what="all have ended")
        assert sorted(self.shorts()) == list(range(1, SHORT_TASKS + 1))
        ends = [(row["state"], row["restarts"]) for row in rows()]
        assert ends == [("COMPLETED", 0)] * SHORT_TASKS

    def close(self) -> None:
        self.forward.kill()
        self.forward.communicate()
        self.session.close()
        for row in self.home.json("queue"):
            self.home.run("cancel", row["label"])
        eventually(lambda: not self.home.json("queue"), timeout_s=BACK_S, what="all jobs have ended")


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Home:
    for host in (1, 2):
        words = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    return shared_home


@pytest.fixture
def busy(home: Home, short_tmp: Path) -> Iterator[Busy]:
    made = Busy(home, short_tmp)
    yield made
    made.close()


@contextmanager
def cut(lab: Lab, hosts: tuple[int, ...]) -> Iterator[None]:
    """All packets to these hosts get lost in silence."""
    for host in hosts:
        lab.sh("drop", str(host))
    try:
        yield
    finally:
        for host in hosts:
            lab.sh("undrop", str(host))


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def test_what_goes_over_a_link_outlives_a_short_cut_unharmed(home: Home, lab: Lab, busy: Busy) -> None:
    eventually(busy.counts, what="the port is there")
    with busy.dial() as link, link.makefile("rb") as counted:
        assert counted.readline() == b"0\n"
        busy.hurry()
        with cut(lab, (1, 2)):
            assert len(busy.shorts()) < SHORT_TASKS
            busy.session.type("echo typed-$((1+1))\n")
            busy.goes_on()
        busy.session.until("typed-2", timeout_s=BACK_S)
        assert [counted.readline() for _ in range(100)] == [b"%d\n" % number for number in range(1, 101)]
    assert "connection lost" not in home.log()
    busy.ends_well()


@pytest.mark.parametrize("hosts", [(1,), (2,)], ids=["of srun", "of a task"])
def test_what_goes_over_a_link_comes_back_after_a_long_cut(
    home: Home, lab: Lab, busy: Busy, hosts: tuple[int, ...]
) -> None:
    busy.hurry()
    busy.session.type("sleep 3; echo typed-$((1+1))\n")
    busy.session.until("\n")
    with cut(lab, hosts):
        assert len(busy.shorts()) < SHORT_TASKS
        for host in hosts:
            lost = f"gpu{host}"
            eventually(lambda lost=lost: state(home, lost) == "down", timeout_s=BACK_S, what="it is lost")
        busy.goes_on()
        assert home.state(busy.job) == home.state(busy.session_job) == "RUNNING"
    busy.session.until("typed-2", timeout_s=BACK_S)
    busy.session.type("exit 3\n")
    assert busy.session.ended() == 3
    eventually(busy.counts, timeout_s=BACK_S, what="the port leads to the task again")
    busy.ends_well()
