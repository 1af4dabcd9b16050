"""Terminal jobs: window size, keys, exit code, and viewers that attach and detach while the job runs."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import AgentProcess
from tests.support.processes import read
from tests.support.waiting import WAIT_S, eventually

from warpdeck_agent.streams.terminal_queries import without_queries
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import JSON, STREAM_WINDOW_BYTES, pack
from warpdeck_agent.wire.opening import FELL_BEHIND

SHELL = ["sh", "-i"]


def open_terminal(agent: AgentProcess, stream: int = 1, **fields: Any) -> wire.StreamOpened:
    """Attach to job 1's terminal. The fields are the fields of wire.OpenPty."""
    given = {"rows": 24, "cols": 80, **fields}
    agent.link.send(wire.OpenPty(stream=stream, job_id=1, restarts=0, **given))
    return agent.link.expect(wire.StreamOpened, lambda opened: opened.stream == stream)


def shell(agent: AgentProcess) -> None:
    """Start job 1, a shell on a terminal, and attach to it on stream 1."""
    environ = {"PATH": os.environ["PATH"], "PS1": "> "}
    agent.launch(1, role="tasks", argv=SHELL, pty=True, rows=30, cols=90, env=environ)
    agent.link.report(1, "running")
    open_terminal(agent)


def test_keys_are_echoed_and_the_exit_code_is_reported(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"echo is-$((40+2))\n")
    agent.link.output(1, b"is-42")
    agent.link.send_data(1, b"exit 9\n")
    assert agent.link.report(1, "exited").exit_code == 9
    assert agent.link.expect(wire.StreamEnd).stream == 1
    assert "is-42" in agent.text(1)


def test_the_size_follows_the_viewer(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send(wire.ResizePty(stream=1, rows=41, cols=133))
    agent.link.send_data(1, b"stty size\n")
    agent.link.output(1, b"41 133")


def test_the_size_follows_the_viewer_that_typed_last(agent: AgentProcess) -> None:
    shell(agent)
    open_terminal(agent, 2, rows=50, cols=150)
    agent.link.send_data(2, b"stty size\n")
    agent.link.output(2, b"50 150")
    agent.link.send_data(1, b"stty size; echo one\n")
    seen = len(agent.link.output(1, b"24 80"))
    agent.link.send(wire.ResizePty(stream=2, rows=51, cols=151))
    agent.link.send_data(1, b"stty size; echo two\n")
    agent.link.output(1, b"24 80", after=seen)
    agent.link.send(wire.StreamEnd(stream=1))
    agent.link.send_data(2, b"stty size\n")
    agent.link.output(2, b"51 151")


def test_a_watcher_can_only_read(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"echo before-$((1+1))\n")
    agent.link.output(1, b"before-2")
    open_terminal(agent, 2, rows=50, cols=150, watch=True, watcher="bob")
    agent.link.output(2, b"before-2")
    agent.link.output(1, b"[warpdeck: bob watches]")
    agent.link.send_data(2, b"echo typed-$((2+2))\n")
    agent.link.send(wire.ResizePty(stream=2, rows=51, cols=151))
    agent.link.send_data(1, b"stty size; echo after-$((3+3))\n")
    found = agent.link.output(2, b"after-6")
    assert b"24 80" in found and b"typed" not in found
    agent.link.send(wire.StreamEnd(stream=2))
    agent.link.send_data(1, b"stty size; echo end-$((4+4))\n")
    assert b"51 151" not in agent.link.output(1, b"end-8")


def test_the_output_of_a_short_command_is_kept_for_the_first_viewer(agent: AgentProcess) -> None:
    done = agent.folder.parent / "done"
    command = f"echo short-$((1+1)); touch {done}; exit 5"
    agent.launch(1, role="tasks", argv=["sh", "-c", command], pty=True)
    agent.link.report(1, "running")
    eventually(
        lambda: done.exists() and agent.processes(1) == [agent.first_process(1)],
        what="only the host process is left",
    )
    open_terminal(agent)
    agent.link.output(1, b"short-2")
    assert agent.link.report(1, "exited").exit_code == 5


def test_control_c_reaches_only_the_foreground_program(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"sleep 1000; echo not-$((1+1))\n")
    eventually(
        lambda: any(read(pid, "comm") == b"sleep\n" for pid in agent.processes(1)),
        what="sleep runs on the terminal",
    )
    seen = len(agent.link.output(1, b"sleep"))
    agent.link.send_data(1, b"\x03")
    agent.link.output(1, b"> ", after=seen)
    agent.link.send_data(1, b"echo after-$?\n")
    assert b"not-2" not in agent.link.output(1, b"after-130")


def test_a_reconnecting_viewer_gets_the_missed_output(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"echo one-$((0+1))\n")
    seen = len(agent.link.output(1, b"one-1"))
    agent.link.send(wire.StreamEnd(stream=1))
    agent.connect()
    assert open_terminal(agent, 5, offset=0).offset == 0
    agent.link.output(5, b"one-1")
    agent.connect()
    assert open_terminal(agent, 6, offset=seen).offset == seen
    agent.link.send_data(6, b"echo two-$((1+1))\n")
    assert b"one-1" not in agent.link.output(6, b"two-2")


ASKS = "printf 'asks\\033[6n\\033]11;?\\007end\\n'"


def test_answered_terminal_queries_are_not_replayed(agent: AgentProcess) -> None:
    """If the query were repeated, the terminal would type its answer into the program that runs now."""
    shell(agent)
    agent.link.send_data(1, f"{ASKS}\n".encode())
    requested = b"asks\x1b[6n\x1b]11;?\x07end"
    assert requested in agent.link.output(1, requested)
    agent.link.send(wire.StreamEnd(stream=1))
    opened = open_terminal(agent, 2)
    found = agent.link.output(2, b"asks" + bytes(4 + 7) + b"end")
    assert b"\x1b[6n" not in found
    agent.link.send_data(2, b"echo more-$((1+1))\n")
    assert len(agent.link.output(2, b"more-2")) > opened.size_bytes - opened.offset


def test_an_unanswered_terminal_query_is_sent_to_the_first_viewer(
    agent: AgentProcess, short_tmp: Path
) -> None:
    script = f"{ASKS}; touch {short_tmp}/asked; sleep 1000"
    agent.launch(1, role="tasks", argv=["sh", "-c", script], pty=True, env={"PATH": os.environ["PATH"]})
    agent.link.report(1, "running")
    eventually((short_tmp / "asked").exists, what="the request was sent")
    open_terminal(agent, 1, watch=True)
    agent.link.output(1, b"\x1b]11;?")
    open_terminal(agent, 2)
    agent.link.output(2, b"asks\x1b[6n\x1b]11;?\x07end")
    open_terminal(agent, 3)
    agent.link.output(3, b"asks" + bytes(4 + 7) + b"end")


@pytest.mark.parametrize(
    "query",
    [
        *(
            b"\x05",
            b"\x1bZ",
            b"\x1b[c",
            b"\x1b[0c",
            b"\x1b[>c",
            b"\x1b[>0;1c",
            b"\x1b[=c",
            b"\x1b[6n",
            b"\x1b[?6n",
        ),
        *(
            b"\x1b[?996n",
            b"\x1b[?2026$p",
            b"\x1b[4$p",
            b"\x1b[1$w",
            b"\x1b[>q",
            b"\x1b[>0q",
            b"\x1b[?u",
            b"\x1b[x",
        ),
        *(b"\x1b[14t", b"\x1b[18t", b"\x1b[14;2t", b"\x1b]10;?\x07", b"\x1b]11;?\x1b\\", b"\x1b]4;1;?\x07"),
        *(b"\x1b]52;c;?\x07", b"\x1bP+q544e\x1b\\", b"\x1bP$qm\x1b\\", b"\x1b_Gi=31,s=1,a=q,t=d;AAAA\x1b\\"),
    ],
)
def test_every_terminal_query_is_removed_from_the_replay(query: bytes) -> None:
    assert without_queries(b"a" + query + b"b") == b"a" + bytes(len(query)) + b"b"


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"plain \xc3\xa9 text?\r\n",
            b"\x1b[31mred\x1b[0m",
            b"\x1b[2J\x1b[H",
            b"\x1b[22;0;0t",
            b"\x1b[8;24;80t",
        ),
        *(b"\x1b]0;title?\x07", b"\x1b]11;#112233\x07", b"\x1b[?25l\x1b[?1049h", b"\x1b[>4;1m", b"\x1b[2 q"),
        *(b"\x1b]52;c;aGk=\x07", b"\x1b_Ga=T,f=100;AAAA\x1b\\", b"\x1b[>4n", b"\x1b]8;;http://a/?q\x07"),
    ],
)
def test_other_output_is_replayed_unchanged(text: bytes) -> None:
    assert without_queries(text) == text


def test_a_terminal_survives_its_agent(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"echo one-$((0+1))\n")
    agent.link.output(1, b"one-1")
    agent.kill()
    agent.start()
    open_terminal(agent, 2)
    agent.link.output(2, b"one-1")
    agent.link.send_data(2, b"exit 8\n")
    assert agent.link.report(1, "exited").exit_code == 8


def test_a_shell_that_ignores_sigterm_ends_by_a_hang_up(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.output(1, b"> ")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=3600.0))
    report = agent.link.report(1, "exited")
    assert (report.signal, report.cause) == (signal.SIGHUP, "cancelled")


def test_a_terminal_that_ignores_a_hang_up_is_killed(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"trap '' TERM HUP; echo set-$((1+1)); sleep 1000\n")
    agent.link.output(1, b"set-2")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.2))
    report = agent.link.report(1, "exited")
    assert (report.signal, report.cause) == (signal.SIGKILL, "cancelled")
    eventually(lambda: not agent.processes(1), what="no process of it is left")


def test_an_idle_session_is_warned_and_then_ended(agent: AgentProcess) -> None:
    environ = {"PATH": os.environ["PATH"], "PS1": "> "}
    limits: dict[str, Any] = {"idle_limit_s": 4.0, "idle_warning_s": 3.0}
    agent.launch(1, role="tasks", argv=SHELL, pty=True, env=environ, **limits)
    agent.link.report(1, "running")
    open_terminal(agent)
    shown = agent.link.output(1, b"unless a key is typed")
    assert b"[warpdeck: idle for " in shown and b"this session ends in " in shown
    report = agent.link.report(1, "exited")
    assert (report.cause, report.message) == (
        "idle",
        "the session was idle for 4 s, the limit of interactive sessions on this cluster",
    )


def test_a_session_with_typed_keys_is_not_idle(agent: AgentProcess) -> None:
    environ = {"PATH": os.environ["PATH"], "PS1": "> "}
    agent.launch(1, role="tasks", argv=SHELL, pty=True, env=environ, idle_limit_s=61.0, idle_warning_s=60.0)
    agent.link.report(1, "running")
    open_terminal(agent)
    seen = 0
    for _ in range(3):  # each key postpones the limit, and the next warning is a new one
        agent.link.output(1, b"unless a key is typed", after=seen)
        seen = len(agent.link.data[1])
        agent.link.send_data(1, b"\n")
    agent.link.send_data(1, b"exit 6\n")
    assert agent.link.report(1, "exited").exit_code == 6


def test_a_flood_of_output_is_bounded_and_its_end_arrives(agent: AgentProcess) -> None:
    shell(agent)
    agent.link.send_data(1, b"seq 1 300000; echo done-$((1+1))\n")
    agent.link.output(1, b"done-2")
    assert b"300000" in agent.link.data[1]


def state_of(pid: int) -> str:
    """Return the kernel's state letter of a process (R, S, T ...), or "" if the process has gone."""
    return read(pid, "stat").rpartition(b")")[2].decode()[1:2]


def read_to(agent: AgentProcess, last: bytes) -> bytes:
    """Return all data of stream 1, up to and including `last`."""
    while not agent.link.data.get(1, b"").endswith(last):
        agent.link.read()
    return bytes(agent.link.data[1])


def test_pasted_text_is_echoed_completely(agent: AgentProcess) -> None:
    """The text is longer than a terminal's buffer. `cat` continues to read only while its output is read."""
    agent.launch(1, role="tasks", argv=["sh", "-c", "stty raw -echo; echo ready; exec cat"], pty=True)
    agent.link.report(1, "running")
    open_terminal(agent)
    agent.link.output(1, b"ready\n")
    pasted = b"".join(b"%06d pasted\n" % number for number in range(40_000))
    for start in range(0, len(pasted), 60_000):
        agent.link.send_data(1, pasted[start : start + 60_000])
    assert read_to(agent, pasted[-14:]) == b"ready\n" + pasted


def test_a_terminal_with_a_command_that_reads_nothing_can_be_watched(agent: AgentProcess) -> None:
    agent.launch(1, role="tasks", argv=["sh", "-c", "stty -echo; echo ready; sleep 1000"], pty=True)
    agent.link.report(1, "running")
    open_terminal(agent)
    agent.link.output(1, b"ready")
    for _ in range(10):
        agent.link.send_data(1, b"x\n" * 30_000)
    open_terminal(agent, 2, watch=True)
    agent.link.output(2, b"ready")


LINES = 800_000
ALL = b"".join(b"%d\r\n" % number for number in range(1, LINES + 1))
LAST = b"\r\n%d\r\n" % LINES
FLOOD = f"seq 1 {LINES}; touch over; exec sleep 1000"
"""Several times the data that the agent, the terminal and the streams between them can buffer."""


def flooded(agent: AgentProcess) -> Path:
    """Start a flood of output on a terminal that nobody reads; return the job's folder.

    The flood creates the file `over` in the folder after it has written everything.
    """
    folder = agent.folder.parent
    agent.launch(1, role="tasks", argv=["sh", "-c", FLOOD], pty=True, cwd=str(folder))
    agent.link.report(1, "running")
    agent.link.acknowledges = False
    open_terminal(agent)
    while len(agent.link.data.get(1, b"")) < STREAM_WINDOW_BYTES:
        agent.link.read()
    return folder


def test_a_command_waits_for_the_slow_viewer_that_typed_last(agent: AgentProcess) -> None:
    folder = flooded(agent)
    looks: list[str] = []

    def stands_still() -> bool:
        looks.append("".join(state_of(pid) for pid in agent.processes(1)))
        return (folder / "over").exists() or (len(looks) > 3 and set("".join(looks[-3:])) == {"S"})

    eventually(stands_still, what="no process of it runs")
    agent.link.acknowledges = True
    agent.link.send(wire.StreamAck(stream=1, size=STREAM_WINDOW_BYTES))
    assert read_to(agent, LAST) == ALL


def test_a_stalled_viewer_delays_no_others_and_can_reconnect(agent: AgentProcess) -> None:
    folder = flooded(agent)
    eventually((folder / "over").exists, what="the command has continued")
    agent.link.acknowledges = True
    agent.link.send(wire.StreamAck(stream=1, size=STREAM_WINDOW_BYTES))
    assert agent.link.expect(wire.StreamEnd).code == FELL_BEHIND
    seen = len(agent.link.data[1])
    assert open_terminal(agent, 2, offset=seen).offset > seen
    agent.link.output(2, LAST)


def test_a_late_viewer_gets_terminal_modes_set_before_the_scrollback(agent: AgentProcess) -> None:
    folder = agent.folder.parent
    script = f"printf '\\033[?1049h'; seq 1 {LINES}; touch over; exec sleep 1000"
    agent.launch(1, role="tasks", argv=["sh", "-c", script], pty=True, cwd=str(folder))
    agent.link.report(1, "running")
    eventually((folder / "over").exists, what="all messages have arrived")
    opened = open_terminal(agent)
    assert opened.offset > 0
    assert read_to(agent, LAST).startswith(b"\x1b[?1049h")
    assert opened.offset + len(agent.link.data[1]) == len(b"\x1b[?1049h" + ALL)


def test_a_terminal_ends_although_its_host_process_is_stopped(agent: AgentProcess) -> None:
    shell(agent)
    os.kill(agent.first_process(1), signal.SIGSTOP)
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0, cause="cancel"))
    assert agent.link.report(1, "exited").cause == "cancel"


def test_a_missing_command_is_reported(agent: AgentProcess) -> None:
    agent.launch(1, role="tasks", argv=["no-such-program"], pty=True)
    agent.link.report(1, "running")
    open_terminal(agent)
    assert agent.link.report(1, "exited").exit_code == 127
    assert "cannot run no-such-program" in agent.text(1)


@pytest.mark.parametrize("message", [b'{"t":"x"}', b'{"t":"x","offset":-5,"total":"y"}', b"no json"])
def test_a_process_in_place_of_the_terminal_host_is_only_reported(
    agent: AgentProcess, message: bytes
) -> None:
    """The user owns the folder of the socket and can therefore replace the socket."""
    shell(agent)
    (address,) = agent.folder.glob("**/pty.sock")
    address.rename(address.with_name("real"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.settimeout(WAIT_S)
        listener.listen()
        agent.link.send(wire.OpenPty(stream=2, job_id=1, restarts=0, rows=24, cols=80))
        link, _ = listener.accept()
        with link:
            link.sendall(pack(JSON, message))
            assert agent.link.expect(wire.StreamEnd, lambda ended: ended.stream == 2).error
    address.unlink()
    address.with_name("real").rename(address)
    open_terminal(agent, 3)


def test_a_terminal_that_has_ended_cannot_be_joined(agent: AgentProcess) -> None:
    agent.launch(1, role="tasks", argv=["true"], pty=True)
    agent.link.report(1, "running")
    open_terminal(agent)
    agent.link.report(1, "exited")
    agent.link.send(wire.OpenPty(stream=3, job_id=1, restarts=0, rows=24, cols=80))
    end = agent.link.expect(wire.StreamEnd, lambda found: found.stream == 3)
    assert end.error == "the terminal has ended"
