"""warpdeck forward: a port of a job on another host is available on a local port, for its owner, while the
job runs.
"""

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
    """A running `warpdeck forward` that has printed its port."""

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
        assert self.line.startswith("127.0.0.1:"), self.errors_text()
        self.port = int(self.line.split()[0].rpartition(":")[2])

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=WAIT_S) as answer:
            return str(answer.read().decode())

    def errors_text(self) -> str:
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
    job_id = home.json("submit", "--no-snapshot", "--wrap", SERVER.format(folder=folder), cwd=folder)[
        "job_id"
    ]
    yield str(job_id)
    home.run("cancel", str(job_id))
    eventually(lambda: home.job(job_id)["end"], what="the job has ended")


@pytest.fixture
def forward(home: Home, job: str) -> Iterator[Forward]:
    running_forward = Forward(home, job, f"{PORT}:0")
    eventually(lambda: listens(running_forward), what="the server is up")
    yield running_forward
    running_forward.close()


def listens(forward: Forward) -> bool:
    """Return whether the job's server answers."""
    try:
        return bool(forward.get("hello"))
    except OSError:
        return False


def forwards(home: Home) -> list[dict[str, Any]]:
    return list(home.json("forward", "--list"))


def test_many_connections_at_once_reach_the_jobs_port(forward: Forward, job: str) -> None:
    assert f"forwards to port {PORT} of job {job}" in forward.line
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(forward.get, ["hello"] * 48))
    assert answers == ["from the node\n"] * 48


def test_a_large_answer_arrives_complete_while_another_is_not_read(forward: Forward, folder: Path) -> None:
    (folder / "large").write_bytes(bytes(range(256)) * 32 * 1024)
    with socket.create_connection(("127.0.0.1", forward.port)) as unread:
        unread.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{forward.port}/large", timeout=WAIT_S) as answer:
            assert answer.read() == (folder / "large").read_bytes()


def test_forwards_are_listed_and_end_with_the_job(home: Home, forward: Forward, job: str) -> None:
    [row] = forwards(home)
    assert (row["job"], row["node"], row["port"], row["local_port"]) == (job, "gpu1", PORT, forward.port)
    assert (row["user"], row["host"]) == ("root", socket.gethostname())
    assert f"gpu1:{PORT}" in home.ok("forward", "--list")
    with socket.create_connection(("127.0.0.1", forward.port)):
        eventually(lambda: forwards(home)[0]["connections"] == 1, what="the open connection is counted")
    eventually(lambda: forwards(home)[0]["connections"] == 0, what="the closed connection is not counted")
    home.ok("cancel", job)
    assert forward.process.wait(WAIT_S) == 0
    assert f"job {job} has ended" in forward.errors_text()
    eventually(lambda: forwards(home) == [], what="the forward is no longer listed")


def test_a_forward_can_be_ended_by_its_number(home: Home, forward: Forward) -> None:
    home.ok("forward", "--end", str(forwards(home)[0]["number"]))
    assert forward.process.wait(WAIT_S) == 0
    eventually(lambda: forwards(home) == [], what="the forward is no longer listed")
    assert "you have no forward 99" in home.run("forward", "--end", "99").stderr


def test_another_users_connection_is_refused(forward: Forward) -> None:
    script = "import socket,sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 30); print(s.recv(1))"
    argv = [f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", script, str(forward.port)]
    result = subprocess.run(["setpriv", *argv], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert result.stdout == "b''\n", result.stderr
    eventually(
        lambda: f"refused a connection from another user (uid {NOBODY})" in forward.errors_text(),
        what="the refusal is printed",
    )
    assert forward.get("hello")


def test_a_port_without_a_listener_is_reported(home: Home, job: str) -> None:
    other = Forward(home, job, "9:0")
    try:
        with socket.create_connection(("127.0.0.1", other.port), timeout=WAIT_S) as link:
            assert link.recv(1) == b""
        message = "gpu1: nothing listens on port 9 of the node's loopback interface"
        eventually(lambda: message in other.errors_text(), what="the error is printed")
    finally:
        other.close()


def test_a_forward_survives_a_killed_controller(home: Home, forward: Forward, job: str) -> None:
    home.kill_controller()
    home.ok("up", "--no-local-node")
    eventually(lambda: len(forwards(home)) == 1, what="the forward is listed again")
    eventually(lambda: listens(forward), what="the port leads to the job again")


def test_a_detached_forward_runs_in_the_background(home: Home, job: str) -> None:
    detached = json.loads(home.ok("forward", job, f"{PORT}:0", "--detach", "--json"))
    [row] = forwards(home)
    assert row["local_port"] == detached["local_port"]
    home.ok("cancel", job)
    eventually(lambda: forwards(home) == [], what="the forward ended with the job")


def test_a_used_port_is_refused_if_requested_and_avoided_otherwise(home: Home, job: str) -> None:
    with socket.create_server(("127.0.0.1", PORT)):
        refused = home.run("forward", job, f"{PORT}:{PORT}")
        assert refused.returncode == 1
        assert f"cannot use port {PORT} of this machine" in refused.stderr
        other = Forward(home, job, str(PORT))
        other.close()
        assert other.port != PORT


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["1", "0"], "'0' is not a port"),
        (["1", "80:x"], "'80:x' is not a port"),
        (["1", "65536"], "'65536' is not a port"),
        (["1"], "a job and a port are required"),
        (["999999", "80:0"], "job 999999 is not known"),
    ],
)
def test_an_invalid_command_line_has_a_clear_message(home: Home, argv: list[str], expected: str) -> None:
    result = home.run("forward", *argv)
    assert result.returncode in (1, 2) and expected in result.stderr and "Traceback" not in result.stderr
