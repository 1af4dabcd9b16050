"""Lost packets: a link interrupted for less and for more than its timeout, with every kind of traffic on it."""

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
"""Time until a dead link is noticed, about 20 s, and pauses of similar length between attempts."""
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


class BusyLinks:
    """Two nodes with every kind of traffic over a link.

    A batch job on the first node has an srun with a task on each node, and short tasks of an array are
    prefetched to the first node. On the second node there are a terminal session and a forwarded port.
    """

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        (folder / "task.py").write_text(TASK)
        script = SCRIPT.format(python=sys.executable, folder=folder, port=PORT)
        (folder / "job.sh").write_text(script)
        argv = ["submit", "--no-snapshot", "-N2", "-n2", "-o", "out", "job.sh"]
        self.job = str(home.json(*argv, cwd=folder)["job_id"])
        eventually(
            lambda: self.tick_count(1) and self.tick_count(0),
            what=f"the job's tasks run: {home.job(self.job)}",
        )
        self.session = AtTerminal(home, "run", "-w", "gpu2", "--pty", "env", "PS1=> ", "sh")
        self.session.until("> ")
        self.session_job = str(max(row["id"] for row in home.json("queue")))
        argv = ["submit", "--no-snapshot", f"--array=1-{SHORT_TASKS}", "-w", "gpu1", "-o", "short.%a"]
        command = SHORT_TASK.format(before=BEFORE_CUT)
        self.array = home.json(*argv, "--wrap", command, cwd=folder)["job_id"]
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

    def tick_count(self, rank: int) -> int:
        path = self.folder / f"ticks{rank}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def finished_short_tasks(self) -> list[int]:
        """Return the ids of the finished short tasks in the order in which they ran."""
        path = self.folder / "short"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def release_short_tasks(self) -> None:
        """Let short tasks run one after the other."""
        (self.folder / "more").touch()
        minimum = BEFORE_CUT + 10
        eventually(
            lambda: len(self.finished_short_tasks()) > minimum, timeout_s=BACK_S, what="short tasks run"
        )

    def wait_for_ticks(self) -> None:
        """Wait until the tasks write more ticks. This takes much less than a link's timeout, even on a busy
        machine.
        """
        before = self.tick_count(0), self.tick_count(1)
        eventually(
            lambda: self.tick_count(0) > before[0] + 10 and self.tick_count(1) > before[1] + 10,
            what="both tasks write ticks",
        )

    def connect(self) -> socket.socket:
        """Connect to the task's port, on which it sends numbers."""
        return socket.create_connection(("127.0.0.1", self.local_port), timeout=WAIT_S)

    def is_reachable(self) -> bool:
        """Return whether a new connection reaches the task."""
        try:
            with self.connect() as link:
                return link.recv(1) == b"0"
        except OSError:
            return False

    def assert_complete_output(self) -> None:
        """Assert that the tasks' output is complete without repetitions and that the exit codes are right."""
        (self.folder / "gate").touch()
        eventually(
            lambda: self.home.job(self.job)["end"], timeout_s=BACK_S, what=f"{self.home.job(self.job)}"
        )
        self.assert_short_tasks_ran_once()
        row = self.home.job(self.job)
        assert (row["state"], row["exit_code"], row["restarts"]) == ("FAILED", "6:0", 0)
        out = self.folder / "out"
        eventually(lambda: "code 5" in out.read_text(), what="the output is complete")
        lines = out.read_text().splitlines()
        for rank in (0, 1):
            expected = [*map(str, range(1, self.tick_count(rank) + 1)), f"over {self.tick_count(rank)}"]
            assert [line[3:] for line in lines if line.startswith(f"{rank}: ")] == expected

    def assert_short_tasks_ran_once(self) -> None:
        """Assert that each short task has run exactly once."""

        def rows() -> list[dict[str, object]]:
            queue_rows: list[dict[str, object]] = self.home.json("queue", "--all")
            return [row for row in queue_rows if row["array_job_id"] == self.array]

        eventually(lambda: all(row["end"] for row in rows()), timeout_s=BACK_S, what="all have ended")
        assert sorted(self.finished_short_tasks()) == list(range(1, SHORT_TASKS + 1))
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
        argv = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    return shared_home


@pytest.fixture
def links(home: Home, short_tmp: Path) -> Iterator[BusyLinks]:
    busy_links = BusyLinks(home, short_tmp)
    yield busy_links
    busy_links.close()


@contextmanager
def cut(lab: Lab, hosts: tuple[int, ...]) -> Iterator[None]:
    """Drop all packets to these hosts silently."""
    for host in hosts:
        lab.sh("drop", str(host))
    try:
        yield
    finally:
        for host in hosts:
            lab.sh("undrop", str(host))


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def test_traffic_over_a_link_survives_a_short_interruption(home: Home, lab: Lab, links: BusyLinks) -> None:
    eventually(links.is_reachable, what="the port is forwarded")
    with links.connect() as link, link.makefile("rb") as numbers:
        assert numbers.readline() == b"0\n"
        links.release_short_tasks()
        with cut(lab, (1, 2)):
            assert len(links.finished_short_tasks()) < SHORT_TASKS
            links.session.type("echo typed-$((1+1))\n")
            links.wait_for_ticks()
        links.session.until("typed-2", timeout_s=BACK_S)
        assert [numbers.readline() for _ in range(100)] == [b"%d\n" % number for number in range(1, 101)]
    assert "connection lost" not in home.log()
    links.assert_complete_output()


@pytest.mark.parametrize("hosts", [(1,), (2,)], ids=["of srun", "of a task"])
def test_traffic_over_a_link_resumes_after_a_long_interruption(
    home: Home, lab: Lab, links: BusyLinks, hosts: tuple[int, ...]
) -> None:
    links.release_short_tasks()
    links.session.type("sleep 3; echo typed-$((1+1))\n")
    links.session.until("\n")
    with cut(lab, hosts):
        assert len(links.finished_short_tasks()) < SHORT_TASKS
        for host in hosts:
            node = f"gpu{host}"
            eventually(
                lambda node=node: state(home, node) == "down", timeout_s=BACK_S, what="the link is lost"
            )
        links.wait_for_ticks()
        assert home.state(links.job) == home.state(links.session_job) == "RUNNING"
    links.session.until("typed-2", timeout_s=BACK_S)
    links.session.type("exit 3\n")
    assert links.session.ended() == 3
    eventually(links.is_reachable, timeout_s=BACK_S, what="the port leads to the task again")
    links.assert_complete_output()
