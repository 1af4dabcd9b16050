"""The supervisor's protocol with its agent, also with a later agent and with launches in quick succession."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.agent import FROM_SOURCE
from tests.support.waiting import WAIT_S, eventually

from warpdeck_agent.start.launch_start import DEFAULT_PATH
from warpdeck_agent.storage.spool import LaunchFolder, Spool
from warpdeck_agent.supervisor.agent_connection import READ_BYTES
from warpdeck_agent.supervisor.gates import MAX_NOTE_BYTES, GatedLaunch
from warpdeck_agent.supervisor.starter import SCRIPT, START, LaunchOrder, install

LARGE_BYTES = 64 * 1024 * 1024


def joined(folder: Path) -> socket.socket:
    """Connect to the supervisor of a folder as an agent does."""

    def tried() -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(str(folder / "supervisor.sock"))
        except OSError:
            link.close()
            return None
        return link

    link = eventually(tried, what="the supervisor listens")
    assert link is not None
    link.settimeout(WAIT_S)
    return link


@contextmanager
def supervised(folder: Path) -> Iterator[tuple[Spool, subprocess.Popen[bytes], socket.socket]]:
    """A supervisor of a folder and a link to it. It exits after its agent and the last job have gone."""
    spool = Spool(str(folder))
    install(spool.file(START), SCRIPT)
    process = subprocess.Popen([*FROM_SOURCE, "supervise", "--dir", str(folder)])
    try:
        with joined(folder) as link:
            yield spool, process, link
        assert process.wait(WAIT_S) == 0, "the supervisor ends with the agent and the last job"
    finally:
        process.kill()
        process.wait()


def ordered(spool: Spool, job_id: int, script: str) -> tuple[LaunchFolder, dict[str, Any]]:
    """Create the folder of a launch that runs `script`; return it and the fields of the launch order."""
    folder = spool.launch_folder(job_id, 0)
    folder.create(uid=0, gid=0, terminal=False)
    command, env = ["/bin/sh", "-c", script], {"PATH": DEFAULT_PATH}
    out = spool.file(f"said-{job_id}")
    return folder, LaunchOrder(job_id, 0, folder.number, command, env, "/", out, "", False, {})._asdict()


def line(text: dict[str, Any]) -> bytes:
    return json.dumps(text).encode() + b"\n"


def test_unknown_fields_of_a_later_build_are_ignored(short_tmp: Path) -> None:
    messages: list[dict[str, Any]] = []
    with supervised(short_tmp) as (spool, _, link), link.makefile("rb") as lines:
        folder, argv = ordered(spool, 1, "echo on; exit 3")
        link.sendall(line({**argv, "later": {"builds": "know"}}))
        while not messages or messages[-1]["is"] != "ended":
            messages.append(json.loads(lines.readline()))
    assert [each["is"] for each in messages] == ["running", "started", "ended"]
    assert (folder.exit_status(), (short_tmp / "said-1").read_text()) == ((3, 0), "on\n")


def test_starts_in_quick_succession_are_reported_while_the_launches_run(short_tmp: Path) -> None:
    pids: list[int] = []
    with supervised(short_tmp) as (spool, _, link), link.makefile("rb") as lines:
        link.sendall(b"".join(line(ordered(spool, number, "exec sleep 600")[1]) for number in (1, 2, 3)))
        while len(pids) < 3:
            document = json.loads(lines.readline())
            pids += [document["pid"]] if document["is"] == "started" else []
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert len(set(pids)) == 3


def test_a_running_job_uses_no_descriptor_of_the_supervisor(short_tmp: Path) -> None:
    with supervised(short_tmp) as (spool, process, link), link.makefile("rb") as lines:
        assert json.loads(lines.readline())["is"] == "running"
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        link.sendall(line(ordered(spool, 1, "exec sleep 600")[1]))
        pid = json.loads(lines.readline())["pid"]
        eventually(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) == before, what="the gate is closed")
        assert os.listdir(f"/proc/{pid}/fd"), "the job runs"
        os.kill(pid, signal.SIGKILL)


def test_the_peak_memory_of_a_launch_excludes_the_supervisor(short_tmp: Path) -> None:
    peaks: dict[int, int] = {}
    with supervised(short_tmp) as (spool, _, link), link.makefile("rb") as lines:
        large = f"exec {sys.executable} -ISc 'bytearray({LARGE_BYTES})'"
        link.sendall(line(ordered(spool, 1, "true")[1]) + line(ordered(spool, 2, large)[1]))
        while len(peaks) < 2:
            document = json.loads(lines.readline())
            if document["is"] == "ended":
                peaks[document["job"]] = document["peak_bytes"]
    assert peaks[1] == 0 and LARGE_BYTES < peaks[2] < 2 * LARGE_BYTES


def test_a_process_that_writes_too_much_at_the_start_gate_is_ignored(tmp_path: Path) -> None:
    """Otherwise one process could keep the supervisor from serving all others."""
    _, argv = ordered(Spool(str(tmp_path)), 1, "true")
    gate, far = socket.socketpair()
    gate.setblocking(False)
    with gate, far:
        launch = GatedLaunch(LaunchOrder(**argv), gate)
        assert launch.take_note(), "no note yet"
        far.sendall(b"x" * 3 * MAX_NOTE_BYTES)
        assert not launch.take_note()
        assert launch.note == b"x" * MAX_NOTE_BYTES
        assert gate.recv(READ_BYTES), "the remaining data stay unread"
