"""Tunnels to a job: bytes in both directions to a loopback port or a process inside the job.

Tunnels use flow-control windows and are closed when the job ends.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.support.agent import AgentProcess, Link
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES

ENV = {"PATH": os.environ["PATH"], "GREETING": "good\nday"}


@pytest.fixture
def job(agent: AgentProcess) -> int:
    """A job that runs until it is ended."""
    agent.launch(1, "sleep 1000")
    agent.link.report(1, "running")
    return 1


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        listening_socket.settimeout(30.0)
        yield listening_socket


def open_tunnel(agent: AgentProcess, stream: int = 1, *, job_id: int = 1, **fields: object) -> None:
    requested = wire.OpenTunnel(stream=stream, job_id=job_id, restarts=0, env=ENV, **fields)  # type: ignore[arg-type]
    agent.link.send(requested)


def run_inside(agent: AgentProcess, *argv: str, stream: int = 1) -> bytes:
    """Run a command inside job 1 and return its output."""
    open_tunnel(agent, stream, argv=list(argv))
    agent.link.send_data(stream, b"")
    ended = end_of(agent.link, stream)
    assert ended.error == ""
    return bytes(agent.link.data.get(stream, b""))


def end_of(link: Link, stream: int) -> wire.StreamEnd:
    return link.expect(wire.StreamEnd, lambda end: end.stream == stream)


def test_a_tunnel_works_both_ways_and_closes_each_direction_alone(
    agent: AgentProcess, job: int, listener: socket.socket
) -> None:
    open_tunnel(agent, port=listener.getsockname()[1])
    agent.link.send_data(1, b"question")
    agent.link.send_data(1, b"")
    server, _ = listener.accept()
    with server:
        server.settimeout(30.0)
        requested = b""
        while data := server.recv(100):
            requested += data
        assert requested == b"question"
        server.sendall(b"answer")
        agent.link.output(1, b"answer")
    assert end_of(agent.link, 1).error == ""


def test_a_port_without_a_listener_is_reported(
    agent: AgentProcess, job: int, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    listener.close()
    open_tunnel(agent, port=port)
    assert end_of(agent.link, 1).error == f"nothing listens on port {port} of the node's loopback interface"


def test_unread_data_stops_the_sender_at_the_window(
    agent: AgentProcess, job: int, listener: socket.socket
) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    open_tunnel(agent, port=listener.getsockname()[1])
    server, _ = listener.accept()
    agent.link.expect(wire.StreamOpened)
    chunk = b"x" * DATA_CHUNK_BYTES
    for _ in range(STREAM_WINDOW_BYTES // DATA_CHUNK_BYTES):
        agent.link.send_data(1, chunk)
    with server:
        server.settimeout(30.0)
        taken = 0
        while taken < STREAM_WINDOW_BYTES:
            taken += len(server.recv(1 << 20))
        acked = 0
        while acked < STREAM_WINDOW_BYTES:
            acked += agent.link.expect(wire.StreamAck).size
        assert (taken, acked) == (STREAM_WINDOW_BYTES, STREAM_WINDOW_BYTES)


def test_data_beyond_the_window_closes_the_connection(
    agent: AgentProcess, job: int, listener: socket.socket
) -> None:
    open_tunnel(agent, port=listener.getsockname()[1])
    chunk = b"x" * DATA_CHUNK_BYTES
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):
            agent.link.send_data(1, chunk)


def test_a_slow_controller_slows_the_port_without_loss(
    agent: AgentProcess, job: int, listener: socket.socket
) -> None:
    size = 8 * STREAM_WINDOW_BYTES
    open_tunnel(agent, port=listener.getsockname()[1])
    server, _ = listener.accept()

    def send() -> None:
        with server:
            server.sendall(b"y" * size)

    sender = threading.Thread(target=send)
    sender.start()
    agent.link.send_data(1, b"")
    end_of(agent.link, 1)
    sender.join()
    assert len(agent.link.data[1]) == size


def test_a_process_runs_inside_the_job_with_its_environment(agent: AgentProcess, job: int) -> None:
    report = run_inside(agent, "sh", "-c", 'echo "$WARPDECK_JOB|$GREETING|$PWD|$(pwd)|$HOME"').decode()
    folder = str(agent.folder.parent)
    mark = f"1.0@{agent.identity}"
    assert report == f"{mark}|good\nday|{folder}|{folder}|{os.path.expanduser('~')}\n"


def test_a_failing_process_returns_its_last_output(agent: AgentProcess, job: int) -> None:
    open_tunnel(agent, 1, argv=["sh", "-c", "echo first >&2; echo no such luck >&2; exit 3"])
    assert end_of(agent.link, 1).error == "no such luck"
    open_tunnel(agent, 2, argv=["sh", "-c", "exit 4"])
    assert end_of(agent.link, 2).error == "exit code 4"
    open_tunnel(agent, 3, argv=["/no-such-program"])
    assert "not found" in end_of(agent.link, 3).error


def test_a_process_sees_the_end_of_its_input(agent: AgentProcess, job: int) -> None:
    open_tunnel(agent, argv=["sh", "-c", "cat; echo after"])
    agent.link.send_data(1, b"typed\n")
    agent.link.output(1, b"typed\n")
    agent.link.send_data(1, b"")
    agent.link.output(1, b"after\n")


def test_a_process_and_its_tunnel_end_with_the_job(agent: AgentProcess, job: int) -> None:
    open_tunnel(agent, argv=["sh", "-c", "setsid sleep 1000 & echo on; exec sleep 1000"])
    agent.link.output(1, b"on")
    eventually(
        lambda: len(agent.processes(1)) >= 3,
        what="the processes are attributed, which they are not during an exec",
    )
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    agent.link.report(1, "exited")
    end_of(agent.link, 1)
    eventually(lambda: not agent.processes(1), what="no process of the job is left")


def test_a_tunnel_to_a_port_ends_with_the_job(agent: AgentProcess, job: int, listener: socket.socket) -> None:
    open_tunnel(agent, port=listener.getsockname()[1])
    server, _ = listener.accept()
    agent.link.expect(wire.StreamOpened)
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    assert end_of(agent.link, 1).error == "the job has ended"
    with server:
        server.settimeout(30.0)
        assert server.recv(1) == b""


def test_a_process_ends_when_its_tunnel_is_closed(agent: AgentProcess, job: int) -> None:
    open_tunnel(agent, argv=["sh", "-c", "echo $$; exec sleep 1000"])
    pid = int(agent.link.output(1, b"\n"))
    eventually(
        lambda: pid in agent.processes(1), what="the process is attributed, which it is not during an exec"
    )
    agent.link.send(wire.StreamEnd(stream=1))
    eventually(lambda: pid not in agent.processes(1), what="the process has ended")
    eventually(lambda: agent.processes(1), what="the job itself continues")


def test_a_tunnel_to_an_unknown_job_is_refused(agent: AgentProcess, job: int) -> None:
    for stream, job_id in ((1, 7), (2, 2)):
        if job_id == 2:
            agent.run(2, "true")
        open_tunnel(agent, stream, job_id=job_id, argv=["true"])
        assert end_of(agent.link, stream).error == "the job does not run on this node"


def test_a_suspended_job_starts_no_process(agent: AgentProcess, job: int) -> None:
    agent.link.send(wire.Kill(job_id=1, restarts=0, cause=wire.SUSPENDED, signal=19))
    open_tunnel(agent, argv=["true"])
    assert end_of(agent.link, 1).error == "the job is suspended; resume it first"
