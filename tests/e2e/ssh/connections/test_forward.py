"""warpdeck forward: a port of a job on another host is a port here, for its owner, as long as the job runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.lab

PORT = 8765
SERVER = f"cd {{folder}} && exec python3 -m http.server --bind 127.0.0.1 {PORT}"
NOBODY = 65534


class Forward:
    """A running `warpdeck forward`, which has said where its port is."""

    def __init__(self, home: Home, *argv: str) -> None:
        self.errors = (home.path.parent / "forward.err").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warpdeck.cli.main", "forward", *argv],
            env=home.environ,
            cwd=home.path.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line.startswith("127.0.0.1:"), self.said()
        self.port = int(self.line.split()[0].rpartition(":")[2])

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=WAIT_S) as answer:
            return str(answer.read().decode())

    def said(self) -> str:
        return Path(self.errors.name).read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Home:
    shared_home.ok(
        "node", "add", f"root@{lab.address(1)}", "--name", "gpu1", "--accept-host-key", lab.fingerprint(1)
    )
    return shared_home


@pytest.fixture
def folder(short_tmp: Path) -> Path:
    (short_tmp / "hello").write_text("from the node\n")
    return short_tmp


@pytest.fixture
def job(home: Home, folder: Path) -> Iterator[str]:
    """A web server on the loopback of gpu1."""
    made = home.json("submit", "--no-snapshot", "--wrap", SERVER.format(folder=folder), cwd=folder)["job_id"]
    yield str(made)
    home.run("cancel", str(made))
    eventually(lambda: home.job(made)["end"], what="the job has ended")


@pytest.fixture
def forward(home: Home, job: str) -> Iterator[Forward]:
    made = Forward(home, job, f"{PORT}:0")
    eventually(lambda: listens(made), what="the server is up")
    yield made
    made.close()


def listens(forward: Forward) -> bool:
    """Whether the job's server answers yet."""
    try:
        return bool(forward.get("hello"))
    except OSError:
        return False


def forwards(home: Home) -> list[dict[str, Any]]:
    return list(home.json("forward", "--list"))


def test_many_connections_at_once_reach_the_jobs_port(forward: Forward, job: str) -> None:
    assert f"forwards to port {PORT} of job {job}" in forward.line
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(forward.get, ["hello"] * 48))
    assert found == ["from the node\n"] * 48


def test_a_large_answer_arrives_whole_while_another_is_not_read(forward: Forward, folder: Path) -> None:
    (folder / "large").write_bytes(bytes(range(256)) * 32 * 1024)
    with socket.create_connection(("127.0.0.1", forward.port)) as lazy:
        lazy.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{forward.port}/large", timeout=WAIT_S) as answer:
            assert answer.read() == (folder / "large").read_bytes()


def test_forwards_are_listed_and_end_with_the_job(home: Home, forward: Forward, job: str) -> None:
    [row] = forwards(home)
    assert (row["job"], row["node"], row["port"], row["local_port"]) == (job, "gpu1", PORT, forward.port)
    assert (row["user"], row["host"]) == ("root", socket.gethostname())
    assert f"gpu1:{PORT}" in home.ok("forward", "--list")
    with socket.create_connection(("127.0.0.1", forward.port)):
        eventually(lambda: forwards(home)[0]["connections"] == 1, what="an open connection is counted")
    eventually(lambda: forwards(home)[0]["connections"] == 0, what="a closed one is not")
    home.ok("cancel", job)
    assert forward.process.wait(WAIT_S) == 0
    assert f"job {job} has ended" in forward.said()
    eventually(lambda: forwards(home) == [], what="it is listed no more")


def test_a_forward_is_ended_by_its_number(home: Home, forward: Forward) -> None:
    home.ok("forward", "--end", str(forwards(home)[0]["number"]))
    assert forward.process.wait(WAIT_S) == 0
    eventually(lambda: forwards(home) == [], what="it is listed no more")
    assert "you have no forward 99" in home.run("forward", "--end", "99").stderr


def test_another_users_connection_is_refused(forward: Forward) -> None:
    script = "import socket,sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 30); print(s.recv(1))"
    argv = [f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", script, str(forward.port)]
    done = subprocess.run(["setpriv", *argv], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.stdout == "b''\n", done.stderr
    eventually(
        lambda: f"refused a connection from another user (uid {NOBODY})" in forward.said(), what="it is said"
    )
    assert forward.get("hello")


def test_a_port_where_nothing_listens_is_named(home: Home, job: str) -> None:
    made = Forward(home, job, "9:0")
    try:
        with socket.create_connection(("127.0.0.1", made.port), timeout=WAIT_S) as link:
            assert link.recv(1) == b""
        words = "gpu1: nothing listens on port 9 of the node's loopback"
        eventually(lambda: words in made.said(), what="it is said")
    finally:
        made.close()


def test_a_forward_survives_the_controller(home: Home, forward: Forward, job: str) -> None:
    home.kill_controller()
    home.ok("up", "--no-local-node")
    eventually(lambda: len(forwards(home)) == 1, what="the forward is listed again")
    eventually(lambda: listens(forward), what="the port leads to the job again")


def test_a_forward_goes_on_in_the_background(home: Home, job: str) -> None:
    said = json.loads(home.ok("forward", job, f"{PORT}:0", "--detach", "--json"))
    [row] = forwards(home)
    assert row["local_port"] == said["local_port"]
    home.ok("cancel", job)
    eventually(lambda: forwards(home) == [], what="it ended with the job")


def test_a_port_that_is_taken_is_named_and_another_one_is_chosen_unasked(home: Home, job: str) -> None:
    with socket.create_server(("127.0.0.1", PORT)):
        refused = home.run("forward", job, f"{PORT}:{PORT}")
        assert refused.returncode == 1
        assert f"cannot use port {PORT} of this machine" in refused.stderr
        made = Forward(home, job, str(PORT))
        made.close()
        assert made.port != PORT


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["1", "0"], "'0' is not a port"),
        (["1", "80:x"], "'80:x' is not a port"),
        (["1", "65536"], "'65536' is not a port"),
        (["1"], "a job and a port are required"),
        (["999999", "80:0"], "job 999999 is not known"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_sentence(home: Home, argv: list[str], words: str) -> None:
    done = home.run("forward", *argv)
    assert done.returncode in (1, 2) and words in done.stderr and "Traceback" not in done.stderr
