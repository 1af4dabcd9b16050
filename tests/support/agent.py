"""Run a real node agent for one test, and control it over its wire protocol without a controller."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tests.support.processes import kill
from tests.support.waiting import eventually

from warpdeck_agent.isolation import launch_cgroups
from warpdeck_agent.isolation.containment import NodeContainment
from warpdeck_agent.storage.launch_table import LaunchRecord, LaunchTable
from warpdeck_agent.storage.spool import TABLE, Spool
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps
from warpdeck_agent.wire.frames import JSON, FrameDecoder, data_frame, json_frame, parse_json, split_data
from warpdeck_agent.wire.messages import decode, encode

ANSWER_S = 60.0
"""Longest time for any answer on a shared machine."""
FROM_SOURCE = (sys.executable, "-m", "warpdeck_agent")
USER = pwd.getpwuid(os.geteuid()).pw_name
M = TypeVar("M")


class Link:
    """A controller's connection to the agent. It stores unread messages, and acknowledges stream data."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(ANSWER_S)
        self.socket.connect(str(folder / "agent.sock"))
        self.data: dict[int, bytearray] = {}
        self._decoder = FrameDecoder()
        self.acknowledges = True
        self._kept: list[Any] = []
        self._open = True

    def greet(self, *, sample_interval_s: float = 3600.0) -> wire.Welcome:
        """Send Hello and return the Welcome. The reports in it are kept as messages."""
        self.send(wire.Hello(controller_id="test", sample_interval_s=sample_interval_s))
        while not self._kept:
            self.read()
        welcome = self._kept.pop(0)
        assert isinstance(welcome, wire.Welcome), f"the first message must be Welcome, not {welcome}"
        self._kept.extend(welcome.jobs)
        return welcome

    def send(self, *messages: Any) -> None:
        self.socket.sendall(b"".join(json_frame(encode(message)) for message in messages))

    def send_data(self, stream: int, data: bytes) -> None:
        self.socket.sendall(data_frame(stream, data))

    def expect(self, kind: type[M], where: Callable[[M], bool] = lambda message: True) -> M:
        """Return the first unread or new message of this kind for which `where` returns True."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            for message in self._kept:
                if isinstance(message, kind) and where(message):
                    self._kept.remove(message)
                    return message
            assert self._open, f"the agent closed the link; kept: {self._kept}"
            assert time.monotonic() < deadline, f"no {kind.__name__}; kept: {self._kept}"
            self.read()

    def has(self, kind: type[Any]) -> bool:
        """Return whether a message of this kind has arrived and was not read yet."""
        return any(isinstance(message, kind) for message in self._kept)

    def has_report(self, job_id: int, phase: str) -> bool:
        """Return whether this report has arrived and was not read yet."""
        kept = (message for message in self._kept if isinstance(message, wire.JobReport))
        return any((each.job_id, each.phase) == (job_id, phase) for each in kept)

    def report(self, job_id: int, phase: str, *, restarts: int = 0) -> wire.JobReport:
        """Return the next report of this launch in this phase."""
        return self.expect(
            wire.JobReport,
            lambda found: (found.job_id, found.restarts, found.phase) == (job_id, restarts, phase),
        )

    def output(self, stream: int, words: bytes, *, after: int = 0) -> bytes:
        """Return the stream's bytes after position `after`, once they contain `words`."""
        deadline = time.monotonic() + ANSWER_S
        while words not in (found := bytes(self.data.get(stream, b"")[after:])):
            assert self._open and time.monotonic() < deadline, f"no {words!r} in {found!r}"
            self.read()
        return found

    def read(self) -> None:
        """Read the agent's next message. A connection reset by a killed agent counts as closed."""
        assert self._open, f"the agent closed the link; kept: {self._kept}"
        try:
            received = self.socket.recv(1 << 20)
        except ConnectionResetError:
            received = b""
        self._open = bool(received)
        for kind, payload in self._decoder.feed(received):
            if kind == JSON:
                self._kept.append(decode(parse_json(payload)))
                continue
            stream, data = split_data(payload)
            self.data.setdefault(stream, bytearray()).extend(data)
            if self.acknowledges:
                self.send(wire.StreamAck(stream=stream, size=len(data)))

    def closed(self) -> bool:
        """Wait until the agent has closed the connection."""
        while self._open:
            self.read()
        return True

    def close(self) -> None:
        self.socket.close()


class AgentProcess:
    """The agent of one folder. `program` is its command: the package, or a zipapp with a Python interpreter."""

    def __init__(self, folder: Path, *, program: Sequence[str] = FROM_SOURCE, **environ: str) -> None:
        self.folder = folder
        self.program = program
        self.environ = {**os.environ, **environ}
        self.process: subprocess.Popen[bytes] | None = None
        self._links: list[Link] = []
        self._ids = itertools.count(1)

    def new_id(self) -> int:
        """Return a job id that this agent has not seen yet."""
        return next(self._ids)

    def start(self) -> wire.Welcome:
        """Start the agent and return its Welcome. The connection is in `link`."""
        self.serve()
        return self.connect()

    def serve(self) -> None:
        """Start the agent and wait until it listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.program, "serve", "--dir", str(self.folder)],
                env=self.environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        eventually(self._listens, what="the agent's socket")

    def connect(self, *, sample_interval_s: float = 3600.0) -> wire.Welcome:
        """Replace the connection by a new one and return the Welcome, which `welcome` keeps."""
        self.link = Link(self.folder)
        self._links.append(self.link)
        self.welcome = self.link.greet(sample_interval_s=sample_interval_s)
        return self.welcome

    def raw(self) -> Link:
        """Return a new connection without a greeting."""
        self._links.append(Link(self.folder))
        return self._links[-1]

    def launch(self, job_id: int, script: str = "", **fields: Any) -> None:
        """Launch a batch job with this shell script. `fields` are fields of wire.Launch."""
        given: dict[str, Any] = {
            "restarts": 0,
            "user": USER,
            "uid": os.geteuid(),
            "role": "batch",
            "env": {"PATH": os.environ["PATH"]},
            "cwd": str(self.folder.parent),
            "cwd_visible": True,
            "script": script and "#!/bin/sh\n" + script,
            **fields,
        }
        self.link.send(wire.Launch(job_id=job_id, **given))

    def run(self, job_id: int, script: str = "", **fields: Any) -> wire.JobReport:
        """Run a job and return the report of its end."""
        self.launch(job_id, script, **fields)
        return self.link.expect(
            wire.JobReport, lambda found: found.job_id == job_id and found.phase != "running"
        )

    def begin_step(
        self,
        job_id: int,
        step: int,
        command: str,
        *,
        tasks: int = 1,
        mem_bytes: int = 0,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a step with a shell command inside a running job."""
        ranks = [steps.StepTask(rank=rank, env={"SLURM_PROCID": str(rank)}) for rank in range(tasks)]
        launch = steps.StepLaunch(
            job_id=job_id,
            restarts=0,
            step=step,
            env={"PATH": os.environ["PATH"], **env},
            cwd="/",
            argv=["sh", "-c", command],
            tasks=ranks,
            mem_bytes=mem_bytes,
        )
        self.link.send(launch)

    def step_end(self, job_id: int, step: int) -> steps.StepReport:
        """Return the report of a step's end."""
        wanted = (job_id, step, "exited")
        return self.link.expect(
            steps.StepReport, lambda found: (found.job_id, found.step, found.phase) == wanted
        )

    def job(self, job_id: int, name: str = "", *, restarts: int = 0) -> Path:
        """Return the path of a file in the launch's folder."""
        return self.folder / "jobs" / f"{job_id}.{restarts}" / name

    def text(self, job_id: int, name: str = "out") -> str:
        """Return the content of a file in the launch's folder, or "" if it does not exist yet."""
        return _text(self.job(job_id, name))

    def records(self) -> dict[int, LaunchRecord]:
        """Return the launches in the agent's table by job id."""
        found = LaunchTable(str(self.folder / TABLE)).records()
        return {key[0]: record for record in found if (key := record.key()) is not None}

    def record(self, job_id: int) -> LaunchRecord | None:
        """Return the launch's record in the agent's table."""
        return self.records().get(job_id)

    def meta(self, job_id: int) -> str:
        """Return the launch's metadata of the agent as JSON, or "" if there is none."""
        record = self.record(job_id)
        return record.meta() if record is not None else ""

    def first_process(self, job_id: int) -> int:
        """Wait for the job's first process, and return its pid."""

        def pid() -> int:
            record = self.record(job_id)
            return record.process()[0] if record is not None else 0

        return eventually(pid, what=f"a process of job {job_id}")

    def supervisor(self) -> int:
        """Return the pid of the process that starts this agent's jobs."""
        return lock_holder(self.folder / "supervisor.lock")

    def processes(self, job_id: int) -> list[int]:
        """Return the pids of the processes that carry the job's mark."""
        return marked(f"WARPDECK_JOB={job_id}.0@{self.identity}")

    @property
    def identity(self) -> str:
        return (self.folder / "identity").read_text()

    def log(self) -> str:
        return _text(self.folder / "agent.log")

    def kill(self) -> None:
        """Kill the agent with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(ANSWER_S)

    def close(self) -> None:
        """End the agent, its jobs and their cgroups, and print the agent's log for a failed test."""
        for link in self._links:
            link.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            self.kill()
        if (self.folder / "identity").exists():
            self._end_jobs()
        sys.stdout.write(self.log())

    def _end_jobs(self) -> None:
        eventually(self._no_job_lives, what="the agent's jobs are gone")
        spool, containment = Spool(str(self.folder)), NodeContainment(self.identity)
        for meta in [folder.meta() for folder in spool.launch_folders()]:
            launch_cgroups.kill(meta.hold.groups)
        eventually(lambda: containment.clear(keep=()), what="its groups are empty")
        containment.close()
        TempDirs(spool).clear(keep=())

    def _no_job_lives(self) -> bool:
        """Kill the processes of all jobs. Return whether there were none: a killed process may have forked before."""
        found = marked(f"@{self.identity}")
        kill(found)
        return not found

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
            return probe.connect_ex(str(self.folder / "agent.sock")) == 0


def lock_holder(path: Path) -> int:
    """Wait for a process that holds a flock on the file, and return its pid.

    The pid is never 0, because a signal to pid 0 would end the tests.
    """
    return eventually(lambda: holds(path), what=f"a process that holds {path}")


def holds(path: Path) -> int:
    """Return the pid of the process that holds a flock on the file according to the kernel, or 0."""
    inode = str(path.stat().st_ino) if path.exists() else ""
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            return int(fields[4])
    return 0


def run_to_end(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the agent to its end."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_S, check=False)


def marked(words: str) -> list[int]:
    """Return the pids of living processes whose variable WARPDECK_JOB contains `words`."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _carries(name, words.encode())]


def _carries(pid: str, words: bytes) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(entry.startswith(b"WARPDECK_JOB=") and words in entry for entry in environ)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
