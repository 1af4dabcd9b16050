"""The supervisor: a small process that starts this node's jobs and records how each job ended.

It outlives the agent. It is the parent of every job's first process, so that it sees true wait statuses. It
does nothing that may block: it starts and reaps processes and writes short fields into the table of launches.
It runs as long as it has an agent or jobs. If it is killed, the jobs continue, but their exit statuses are
then not known.

The agent talks to it over a socket, in lines of JSON (see `agent_connection`). A LaunchOrder starts a launch.
The supervisor first sends "running" with all launches that it watches, then "started" and "ended" for each
launch.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import math
import os
import signal
import socket
import time
from typing import Any, Dict, Tuple

from warpdeck_agent.isolation.containment_handle import contain, handle_from
from warpdeck_agent.linux.child_peak import ChildPeak
from warpdeck_agent.linux.own_program import SUBREAPER
from warpdeck_agent.storage.launch_table import MESSAGE, PROCESS, STATUS, LaunchTable

from .agent_connection import AgentConnection
from .descriptor_poll import DescriptorPoll
from .descriptor_store import DescriptorStore
from .gates import GatedLaunch, OpenGates
from .starter import START, LaunchOrder, start

JOIN_S = 60.0
"""How long a new supervisor waits for its first agent, in seconds. An agent connects at once, or was
killed.
"""
CLOSE_S = 0.02
"""If launches follow each other more closely than this (in seconds), they are short ones. The report of a
start is then sent with the report of the end, or after this time.
"""
WAKE_BYTES = 64 * 1024
"""Size of one read from the descriptor that wakes the supervisor. It holds one byte for each signal."""


class Supervisor:
    """The supervisor of one agent folder."""

    def __init__(self, folder: str) -> None:
        self._table = LaunchTable(os.path.join(folder, "jobs", "table"))
        self._script = os.path.join(folder, START)
        self._running: Dict[int, GatedLaunch] = {}
        """The running launches, by the pids of their first processes."""
        self._gates = OpenGates()
        self._poll = DescriptorPoll()
        self._agent = AgentConnection(self._poll, self._start)
        self._listener = _listen(folder)
        self._poll.watch(self._listener.fileno(), self._join)
        descriptors = DescriptorStore(folder)
        self._poll.watch(descriptors.listener.fileno(), descriptors.serve)
        self._started_at = -CLOSE_S
        self._peak = ChildPeak()
        self._child_ended = _wake_at_child_end()
        self._poll.watch(self._child_ended, self._reap)
        self._was_joined = False

    def run(self, join_s: float = JOIN_S) -> None:
        """Run until there is neither an agent nor a job. Wait `join_s` seconds for the first agent."""
        while self._agent.is_open or self._running or not self._was_joined:
            has_events = self._poll.run(self._timeout_s() if self._was_joined else join_s)
            if not has_events and not self._was_joined:
                return
            now = time.monotonic()
            self._gates.check_due(now)
            self._agent.send_due(now)

    def _timeout_s(self) -> float:
        """Return the time in seconds until the next scheduled action.

        A negative value means that there is none.
        """
        next_at = min(self._agent.next_send_at, self._gates.check_at)
        return -1.0 if next_at == math.inf else max(0.0, next_at - time.monotonic())

    def _join(self) -> None:
        """Accept a new agent and tell it the running launches."""
        self._agent.replace(self._listener)
        self._was_joined = True
        running = [[each.order.job_id, each.order.restarts, pid] for pid, each in self._running.items()]
        self._agent.send({"is": "running", "pid": os.getpid(), "launches": running})

    def _start(self, order: LaunchOrder) -> None:
        record = self._table.record(order.record)
        try:
            pid, gate = start(order, self._script)
        except OSError as error:
            # There are too many processes, too little memory, or more arguments than the kernel accepts. Only
            # the arguments are the job's fault.
            record.put(MESSAGE, f"cannot start the job's first process: {os.strerror(error.errno or 0)}")
            record.put(STATUS, "1 0 end")
            is_node_error = error.errno in (errno.EAGAIN, errno.ENOMEM)
            self._tell("started", order, pid=0, errno=error.errno if is_node_error else 0)
            self._tell("ended", order, cpu_s=0.0, system_s=0.0, peak_bytes=0)
            return
        launch = self._running[pid] = GatedLaunch(order, gate)
        try:
            grouped = contain(pid, handle_from(order.hold))
            record.put(PROCESS, f"{pid} {int(grouped)}")
            gate.send(b"go\n")
        except OSError as error:
            note = f"cannot apply the job's limits to its first process: {os.strerror(error.errno or 0)}"
            launch.note = note.encode()
            os.kill(pid, signal.SIGKILL)
        self._gates.add(launch)
        before, self._started_at = self._started_at, time.monotonic()
        is_close = self._started_at - before < CLOSE_S
        self._tell("started", order, within_s=CLOSE_S if is_close else 0.0, pid=pid)

    def _reap(self) -> None:
        """Record the exit status of each ended child, and only then report it."""
        os.read(self._child_ended, WAKE_BYTES)
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            launch = self._running.pop(pid, None)
            if launch is not None:
                self._end(launch, status, used)

    def _end(self, launch: GatedLaunch, status: int, used: Any) -> None:
        launch.close_gate()
        code, number = split_status(status)
        record = self._table.record(launch.order.record)
        if launch.note:
            record.put(MESSAGE, launch.note.decode("utf-8", "replace").strip())
        record.put(STATUS, f"{code} {number} end")
        self._tell(
            "ended",
            launch.order,
            cpu_s=used.ru_utime + used.ru_stime,
            system_s=used.ru_stime,
            peak_bytes=self._peak.known(used.ru_maxrss * 1024),
        )

    def _tell(self, event: str, order: LaunchOrder, *, within_s: float = 0.0, **facts: object) -> None:
        message = {"is": event, "job": order.job_id, "restarts": order.restarts, **facts}
        self._agent.send(message, within_s=within_s)


def _wake_at_child_end() -> int:
    """Return a descriptor that can be read after a child of this process has ended."""
    child_ended, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return child_ended


def _listen(folder: str) -> socket.socket:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    address = f"/proc/self/fd/{descriptor}/supervisor.sock"
    listener = socket.socket(socket.AF_UNIX)
    if os.path.lexists(address):
        os.unlink(address)
    before = os.umask(0o077)
    listener.bind(address)
    os.umask(before)
    os.close(descriptor)
    listener.listen(8)
    return listener


def split_status(status: int) -> Tuple[int, int]:
    """Return (exit code, signal) of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def main(folder: str) -> int:
    """Run the supervisor of `folder`. Returns 1 if another one is running."""
    lock = os.open(os.path.join(folder, "supervisor.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # jobs end one by one; the supervisor ends after the last
    if SUBREAPER in os.environ:  # set if no cgroup holds jobs together
        from warpdeck_agent.linux.system_calls import adopt_orphans

        adopt_orphans()
    gc.disable()
    Supervisor(folder).run()
    return 0
