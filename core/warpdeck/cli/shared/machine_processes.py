"""`warpdeck status --machine` and `warpdeck down --machine`: all controllers, gateways and agents of this machine,
whatever their homes.

They are found in /proc, so root opens no path that a user has chosen.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpdeck.base.controller_daemon import MODULES
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json, print_table
from warpdeck.cli.shared.progress import progress

AGENT = "agent"
DAEMONS = {module: name for name, module in MODULES.items()}
"""Maps the main module of a home's process to its kind."""
STOP_S = 30.0
"""Longest time that one of them may take to end."""
GRACE_S = 5.0
"""Time between SIGTERM and SIGKILL for a job."""
KILLED_S = 10.0
"""Longest time that killed processes may take to end."""
POLL_S = 0.05


class MachineProcess(NamedTuple):
    """A controller, a gateway or an agent.

    `home` is the home of the controller or gateway, or the agent's folder. `jobs` contains the ids of the jobs whose processes
    the agent runs here, or is None if another user's processes cannot be read.
    """

    kind: str
    pid: int
    uid: int
    home: str
    jobs: list[str] | None = None


class _Process(NamedTuple):
    pid: int
    uid: int
    argv: tuple[str, ...]


class _Member(NamedTuple):
    """A process of a job. `folder` is the folder of its agent."""

    pid: int
    folder: str
    job: str


def show(*, as_json: bool) -> int:
    """Print the processes, and return the exit code."""
    found = find()
    if as_json:
        print_json({"processes": [{**each._asdict(), "user": _user(each.uid)} for each in found]})
    elif not found:
        print("no controllers, gateways or agents are running on this machine")
    else:
        rows = [(each.kind, str(each.pid), _user(each.uid), _jobs_text(each), each.home) for each in found]
        print_table(("KIND", "PID", "USER", "JOBS", "HOME"), rows)
    return 0


def stop(*, kill_jobs: bool) -> int:
    """Stop the caller's controllers, gateways and agents; as root, those of all users. Raises UserError.

    Controllers and gateways end first, so that no new job begins.
    """
    uid = os.geteuid()
    mine = [each for each in find() if uid in (0, each.uid)]
    if not mine:
        print("no controllers, gateways or agents of yours are running on this machine")
        return 0
    folders = {each.home for each in mine if each.kind == AGENT}
    _end([each for each in mine if each.kind != AGENT])
    jobs = sorted({member.job for member in _members() if member.folder in folders}, key=int)
    if kill_jobs:
        with progress("killing the jobs ..."):
            _kill_jobs(folders)
    _end([each for each in mine if each.kind == AGENT])
    if jobs:
        names = ", ".join(jobs)
        print(
            f"jobs killed: {names}"
            if kill_jobs
            else f"jobs still running: {names}; to kill them, use --kill-jobs"
        )
    return 0


def find() -> list[MachineProcess]:
    """Return all visible controllers, gateways and agents of this machine in the order of their pids."""
    members = _members()
    found = []
    for process in _processes():
        argv = process.argv
        if argv[1:2] == ("-m",) and argv[2:3] and argv[2] in DAEMONS and "--home" in argv[:-1]:
            home = argv[argv.index("--home") + 1]
            found.append(MachineProcess(DAEMONS[argv[2]], process.pid, process.uid, home))
        elif argv[-3:-1] == ("serve", "--dir") and any(_is_agent(word) for word in argv[:-3]):
            jobs = {member.job for member in members if member.folder == argv[-1]}
            seen = sorted(jobs, key=int) if os.geteuid() in (0, process.uid) else None
            found.append(MachineProcess(AGENT, process.pid, process.uid, argv[-1], seen))
    return found


def _is_agent(word: str) -> bool:
    return "warpdeck_agent" in word or (word.endswith(".pyz") and os.path.basename(word).startswith("agent"))


def _end(which: Sequence[MachineProcess]) -> None:
    """Send SIGTERM to each, and wait until it has ended. Raises UserError."""
    for each in which:
        with _pidfd(each.pid) as descriptor:
            if descriptor is None or each[:4] not in {other[:4] for other in find()}:
                continue  # it ended, and another process may have its pid now
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            with progress(f"stopping the {each.kind} in {clean(each.home)} ..."):
                ended = select.select([descriptor], [], [], STOP_S)[0]
            if not ended:
                raise UserError(
                    f"the {each.kind} in {each.home} (pid {each.pid}) did not stop within {STOP_S:.0f} s",
                    f"check its log, or kill it with `kill -9 {each.pid}`",
                )
            print(f"stopped the {each.kind} in {clean(each.home)} (pid {each.pid}, {_user(each.uid)})")


def _kill_jobs(folders: set[str]) -> None:
    """End all processes of the jobs of these agents. Raises UserError."""
    left: set[int] = set()
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
        deadline, told = time.monotonic() + patience_s, set[int]()
        while time.monotonic() < deadline:
            left = {member.pid for member in _members() if member.folder in folders}
            if not left:
                return
            _signal(left - told, number, folders)
            told |= left
            time.sleep(POLL_S)
    raise UserError(
        f"job processes cannot be killed: pids {', '.join(str(pid) for pid in sorted(left))}",
        "they hang in the kernel, often on a file system that does not answer; try again, or reboot this machine",
    )


def _signal(pids: set[int], number: int, folders: set[str]) -> None:
    """Signal the processes that still belong to a job after their pidfd is open, because a pid may have been
    reused before.
    """
    with contextlib.ExitStack() as stack:
        held = {pid: stack.enter_context(_pidfd(pid)) for pid in pids}
        still = {member.pid for member in _members() if member.folder in folders}
        for pid, descriptor in held.items():
            if descriptor is not None and pid in still:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _members() -> list[_Member]:
    """Return the processes that carry the mark of a job, and the processes in the cgroup of a job with such a
    process.
    """
    marked, groups = [], {}
    for process in _processes():
        variables = dict(
            entry.partition(b"=")[::2] for entry in _read(process.pid, "environ").split(b"\0") if entry
        )
        folder, name = os.path.split(os.fsdecode(variables.get(b"WARPDECK_ACCESS", b"")))
        job = variables.get(b"WARPDECK_JOB", b"").partition(b".")[0].decode("ascii", "replace")
        if name == "access.sock" and job.isdecimal() and process.pid != os.getpid():
            member = _Member(process.pid, folder, job)
            marked.append(member)
            for group in _job_groups(process.pid):
                groups[group] = member
    pids = {member.pid for member in marked}
    beside = [
        groups[group]._replace(pid=process.pid)
        for process in (_processes() if groups else ())
        if process.pid not in pids and process.pid != os.getpid()
        for group in _job_groups(process.pid)[:1]
        if group in groups
    ]
    return marked + beside


def _job_groups(pid: int) -> list[bytes]:
    """Return the cgroups of jobs that contain the process."""
    lines = _read(pid, "cgroup").splitlines()
    return [line for line in lines if b"/warpdeck-" in line and b"/job-" in line]


def _processes() -> list[_Process]:
    """Return all processes that this user can see. Kernel threads and zombies are left out; they have no
    command line.
    """
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and (words := _read(int(name), "cmdline")):
            with contextlib.suppress(OSError):
                argv = tuple(os.fsdecode(word) for word in words.rstrip(b"\0").split(b"\0"))
                found.append(_Process(int(name), os.stat(f"/proc/{name}").st_uid, argv))
    return sorted(found)


def _read(pid: int, file: str) -> bytes:
    """Return the content of a file of a process, or b"" if the process has ended or belongs to another user."""
    try:
        with open(f"/proc/{pid}/{file}", "rb") as opened:
            return opened.read()
    except OSError:
        return b""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _jobs_text(found: MachineProcess) -> str:
    if found.kind != AGENT:
        return ""
    return "?" if found.jobs is None else ",".join(found.jobs) or "none"
