"""The supervisor: a small process that starts this node's jobs and records how each job ended.

It outlives the agent. It is the parent of every job's first process, so that it sees true wait statuses. It
does nothing that may block: it starts and reaps processes and writes short fields into the table of launches.
It runs as long as it has an agent or jobs. If it is killed, the jobs continue, but their exit statuses are
then not known.

The agent talks to it over a socket, in lines of JSON. An Order starts a launch. The supervisor first sends
"running" with all launches that it watches, then "started" and "ended" for each. A newer connection replaces
an older one. The older one is first read to its end, because orders that an agent sent before it was killed
are still carried out.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import math
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from warpdeck_agent.isolation.hold import contain, hold_from
from warpdeck_agent.linux.child_peak import ChildPeak
from warpdeck_agent.linux.own_program import SUBREAPER
from warpdeck_agent.storage.launch_table import MESSAGE, PROCESS, STATUS, LaunchTable
from warpdeck_agent.wire.jsontext import dumps, loads

from .descriptor_store import LineStore
from .starter import START, LaunchOrder, start

JOIN_S = 60.0
"""How long a new supervisor waits for its first agent, in seconds. An agent connects at once, or was
killed.
"""
READ_BYTES = 64 * 1024
"""Size of reads from the agent. An order has some kilobytes. For larger buffers, the C library would allocate
memory from the kernel and return it every time.
"""
MAX_NOTE_BYTES = 480
"""The longest note on why a job cannot begin, in bytes. More does not fit into its record."""
CLOSE_S = 0.02
"""If launches follow each other more closely than this (in seconds), they are short ones. The report of a
start is then sent with the report of the end, or after this time.
"""
GATES_S = 1.0
"""Interval in seconds at which gates are checked for having closed. The end of a short job closes its gate
anyway, and waking up for each gate would cost more.
"""
MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""An agent with this many unread bytes is disconnected. The next agent gets all information from the
table.
"""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line from the agent. An order holds an environment and arguments. The kernel limits their size,
except for the escapes of JSON.
"""


class Launch:
    """A process that was started.

    Its `gate` is open until its shell has become the job's program or has failed to.
    """

    def __init__(self, order: LaunchOrder, gate: socket.socket) -> None:
        self.order = order
        self.gate = gate
        self.note = b""

    def take_note(self) -> bool:
        """Read the shell's error note from the gate.

        Returns False once there is no more to read. It also returns False when the note has its maximum size,
        because the process at the other end of the gate might write forever.
        """
        while len(self.note) < MAX_NOTE_BYTES:
            try:
                data = self.gate.recv(MAX_NOTE_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                data = b""
            if not data:
                return False
            self.note = (self.note + data)[:MAX_NOTE_BYTES]
        return False


class Supervisor:
    """The supervisor of one agent folder."""

    def __init__(self, folder: str) -> None:
        self._table = LaunchTable(os.path.join(folder, "jobs", "table"))
        self._script = os.path.join(folder, START)
        self._running: Dict[int, Launch] = {}
        self._gates: List[Launch] = []
        """Launches whose gates may be open. Their notes are only needed at the end, so the gates are not
        polled.
        """
        self._look_at = math.inf
        """Next time to check the gates, on the monotonic clock."""
        self._poll = select.epoll()
        self._acts: Dict[int, Callable[[], object]] = {}
        self._listener = _listen(folder)
        self._watch(self._listener.fileno(), self._join)
        self._lines = LineStore(folder)
        self._watch(self._lines.listener.fileno(), self._lines.serve)
        self._agent: Optional[socket.socket] = None
        self._received = bytearray()
        self._unsent = bytearray()
        self._send_at = math.inf
        """Time at which unsent data is sent, on the monotonic clock."""
        self._waits_to_send = False
        self._started_at = -CLOSE_S
        self._peak = ChildPeak()
        self._children, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._watch(self._children, self._reap)
        self._was_joined = False

    def run(self, join_s: float = JOIN_S) -> None:
        """Run until there is neither an agent nor a job. Wait `join_s` seconds for the first agent."""
        while self._agent is not None or self._running or not self._was_joined:
            ready = self._poll.poll(self._patience_s() if self._was_joined else join_s)
            if not ready and not self._was_joined:
                return
            for descriptor, _ in ready:
                act = self._acts.get(descriptor)
                if act is not None:
                    act()
            now = time.monotonic()
            if self._look_at <= now:
                self._look_at_gates()
            if self._send_at <= now:  # also when the agent can receive more again
                self._flush()

    def _patience_s(self) -> float:
        """Return the time in seconds until the next scheduled action.

        A negative value means that there is none.
        """
        next_at = self._look_at if self._waits_to_send else min(self._send_at, self._look_at)
        return -1.0 if next_at == math.inf else max(0.0, next_at - time.monotonic())

    def _watch(self, descriptor: int, act: Callable[[], object]) -> None:
        self._acts[descriptor] = act
        self._poll.register(descriptor, select.EPOLLIN)

    def _forget(self, link: socket.socket) -> None:
        if self._acts.pop(link.fileno(), None) is not None:
            self._poll.unregister(link)
        link.close()

    def _join(self) -> None:
        """Accept a new agent. Orders of the previous agent are carried out first."""
        while self._agent is not None and self._read():
            continue
        self._drop()
        self._agent, _ = self._listener.accept()
        self._agent.setblocking(False)
        self._watch(self._agent.fileno(), self._read)
        self._was_joined = True
        running = [[each.order.job_id, each.order.restarts, pid] for pid, each in self._running.items()]
        self._say({"is": "running", "pid": os.getpid(), "launches": running})

    def _read(self) -> bool:
        """Read and carry out the agent's orders. Returns False if there is nothing to read."""
        if self._agent is None:
            return False
        try:
            data = self._agent.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._received += data
        *lines, rest = self._received.split(b"\n") if b"\n" in data else [self._received]
        self._received = bytearray(rest)
        for line in lines:
            self._start(_order(loads(line.decode("utf-8", "surrogatepass"))))
        if not data or len(rest) > MAX_LINE_BYTES:
            self._drop()
        return bool(data)

    def _start(self, order: LaunchOrder) -> None:
        record = self._table.record(order.record)
        try:
            pid, gate = start(order, self._script)
        except (
            OSError
        ) as error:  # too many processes, too little memory, or arguments longer than the kernel accepts
            record.put(MESSAGE, f"cannot start the job's first process: {os.strerror(error.errno or 0)}")
            record.put(STATUS, "1 0 end")
            is_nodes = error.errno in (errno.EAGAIN, errno.ENOMEM)  # true unless the arguments are too long
            self._tell("started", order, pid=0, errno=error.errno if is_nodes else 0)
            self._tell("ended", order, cpu_s=0.0, system_s=0.0, peak_bytes=0)
            return
        launch = self._running[pid] = Launch(order, gate)
        try:
            grouped = contain(pid, hold_from(order.hold))
            record.put(PROCESS, f"{pid} {int(grouped)}")
            gate.send(b"go\n")
        except OSError as error:
            launch.note = f"cannot apply the job's limits to its first process: {os.strerror(error.errno or 0)}".encode()
            os.kill(pid, signal.SIGKILL)
        now = time.monotonic()
        self._gates.append(launch)
        self._look_at = min(self._look_at, now + GATES_S)
        before, self._started_at = self._started_at, now
        self._tell("started", order, within_s=CLOSE_S if now - before < CLOSE_S else 0.0, pid=pid)

    def _look_at_gates(self) -> None:
        """Close the gates of launches whose program already runs, so that a long job costs no descriptor."""
        open_gates = []
        for launch in self._gates:
            if launch.gate.fileno() < 0:
                continue
            if launch.take_note():
                open_gates.append(launch)
            else:
                launch.gate.close()
        self._gates = open_gates
        self._look_at = time.monotonic() + GATES_S if open_gates else math.inf

    def _reap(self) -> None:
        """Record the exit status of each ended child, and only then report it."""
        os.read(self._children, READ_BYTES)
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

    def _end(self, launch: Launch, status: int, used: Any) -> None:
        if launch.gate.fileno() >= 0:
            launch.take_note()
            launch.gate.close()
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

    def _tell(self, what: str, order: LaunchOrder, *, within_s: float = 0.0, **facts: object) -> None:
        self._say({"is": what, "job": order.job_id, "restarts": order.restarts, **facts}, within_s=within_s)

    def _say(self, words: Dict[str, Any], *, within_s: float = 0.0) -> None:
        """Send a message to the agent within `within_s` seconds. The order of messages is kept."""
        if self._agent is not None:
            self._unsent += dumps(words).encode("utf-8", "surrogatepass") + b"\n"
            self._send_at = min(self._send_at, time.monotonic() + within_s)
            if len(self._unsent) > MAX_UNSENT_BYTES:
                self._drop()

    def _flush(self) -> None:
        if self._agent is None or not self._unsent:
            return
        try:
            del self._unsent[: self._agent.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop()
            return
        if not self._unsent:
            self._send_at = math.inf
        if self._waits_to_send != bool(self._unsent):
            self._waits_to_send = bool(self._unsent)
            self._poll.modify(self._agent, select.EPOLLIN | (select.EPOLLOUT if self._unsent else 0))

    def _drop(self) -> None:
        if self._agent is not None:
            self._forget(self._agent)
        self._agent = None
        self._unsent.clear()
        self._send_at = math.inf
        self._waits_to_send = False
        self._received.clear()


def _order(values: Dict[str, Any]) -> LaunchOrder:
    """Return the order that an agent sent.

    The agent may be of a later build, because a supervisor runs as long as its jobs. Unknown fields are
    ignored.
    """
    known = {name: value for name, value in values.items() if name in LaunchOrder._fields}
    account = known.pop("account", None)
    return LaunchOrder(account=tuple(account) if account else None, **known)


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
