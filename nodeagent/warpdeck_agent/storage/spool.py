"""The agent's folder, with the data that a restarted agent needs to find every job again.

Launches may have subfolders of their own.

  D/agent.sock access.sock agent.lock agent.log identity tasks.sh task.sh supervisor.sock supervisor.lock
  D/controller               the controller that the agent obeys (see `obeyed_controller`)
  D/past D/past.old          forgotten launches (see `past_launches`)
  D/minutes D/minutes.old    history of the last day (see `minute_history`)
  D/bin/ D/programs/         srun for jobs (see `job_programs`)
  D/jobs/table               a record for each launch (see `launch_table`)
  D/jobs/scripts/            the scripts of launches (see `scripts`)
  D/jobs/<job>.<restarts>/   exists for few launches. Files of the agent: cause saving stopped warned
                             checkpoints forgotten steps/ (see `step_registry`). Files of the user: out err
                             checkpoint terminal/
  D/lib/                     pynvml's module, unpacked and compiled
  D/work/<workspace>/        checkouts; they stay after the job
  D/trees/<sha256>.tar.gz    packed snapshots

The folders belong to the agent. So the jobs of a root agent can neither put a link or a pipe where the agent
reads nor change the agent's records about them.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

from warpdeck_agent.isolation.containment_handle import ContainmentHandle, handle_from
from warpdeck_agent.isolation.private_folders import PrivateDirs, folders_of, private_from
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.wire.jsontext import dumps, loads
from warpdeck_agent.wire.messages import Hooks

from .launch_table import LaunchRecord, LaunchTable
from .own_folder import OwnFolder

IDENTITY_BYTES = 8
"""Random bytes of the agent's identity: enough that no two agents on one machine have the same."""
FOLDERS = ("jobs", "work", "trees")
"""The subfolders that launches need."""
TABLE = "jobs/table"
SCRIPTS = "jobs/scripts"
KEEP_FORGOTTEN_S = 3600.0
"""How long output that only the agent keeps can still be read after the controller has sent Forget, in
seconds.
"""


@dataclass
class Meta:
    """The stored metadata of a launch: enough to watch, end and report it.

    It contains neither environment nor script.
    """

    job_id: int
    restarts: int
    role: str
    user: str
    uid: int
    started_at: float
    time_limit_s: Optional[float]
    grace_s: float
    stdout: str
    stderr: str
    work_dir: str
    pty: bool
    gpus: Tuple[str, ...] = field(default_factory=tuple)
    gpu_names: Dict[str, str] = field(default_factory=dict)
    """The name of each GPU in CUDA_VISIBLE_DEVICES, by uuid."""
    hold: ContainmentHandle = field(default_factory=ContainmentHandle)
    warn_signal: int = 0
    warn_before_s: float = 0.0
    warn_batch_only: bool = False
    requeues_at_limit: bool = False
    limit_grace_s: float = 0.0
    idle_limit_s: float = 0.0
    idle_warning_s: float = 0.0
    gpu_share_pct: int = 100
    share_grace_s: float = 10.0
    mem_bytes: int = 0
    tmp_dir: str = ""
    private: Optional[PrivateDirs] = None
    unkillable_s: float = 60.0
    script: str = ""
    """Path of the script that it runs; other launches may run the same file."""
    hooks: Optional[Hooks] = None
    node: str = ""
    """The controller's name for this node."""
    proof: str = ""
    record: str = ""
    """The controller's proof and record of the launch (see `wire.past_launches`)."""
    started_at_uptime_s: float = 0.0
    """When it was started, in seconds since the node's boot; 0 if an earlier version stored it."""
    token: str = ""
    """Secret with which the job's processes prove to this agent that they belong to the job."""

    @property
    def seen_tmp_dir(self) -> str:
        """The path of its TMPDIR as the launch sees it."""
        return self.private.tmp_dir if self.private is not None and not self.tmp_dir else self.tmp_dir

    def folders(self) -> List[str]:
        """Return the folders that are removed with the launch."""
        return folders_of(self.tmp_dir, self.private)


PID_BYTES, STATUS_BYTES = 16, 32
"""The space that is reserved for the fields that a supervisor writes."""
MAX_PID = 1 << 22
"""The kernel's own limit."""


class Folder:
    """A folder with small files that are written atomically."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> str:
        """Return a small file's text, or "" if it does not exist."""
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return file.read(65536).strip()
        except FileNotFoundError:
            return ""

    def append(self, name: str, line: str) -> None:
        """Append a line to a file. It survives a crash of the agent, but not a power failure."""
        descriptor = os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def read_lines(self, name: str) -> List[str]:
        """Return the complete lines of a file."""
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return [line for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def touched_at(self, name: str) -> float:
        """Return the modification time of a file in unix seconds, or 0 if it does not exist."""
        try:
            return os.stat(self.file(name)).st_mtime
        except OSError:
            return 0.0

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Write a small file atomically.

        A file that is not `durable` survives a crash of the agent, but not a power failure.
        """
        temporary = self.file(name + ".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, text.encode())
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, self.file(name))


class JobFolder(Folder):
    """Folder of a process that runs under a shell of its own.

    The shell holds the file `lock` (flock) through its standard input. If the lock is free and there is no
    `pid`, the process never started. If the lock is free and there is a `pid` but no complete `rc`, it was
    killed. The files that the shell writes are filled with spaces beforehand, to reserve the space.
    """

    def create(self, *, uid: int, gid: int) -> None:
        """Create the folder.

        An existing one, from an agent that died before its supervisor began, is replaced.
        """
        if os.path.exists(self.path):
            self.remove()
        os.makedirs(self.path, mode=_passable())
        for name, size in (("pid", PID_BYTES), ("rc", STATUS_BYTES)):
            self.create_user_file(name, b" " * size, uid=uid, gid=gid)

    def create_user_file(self, name: str, data: bytes = b"", *, uid: int, gid: int, mode: int = 0o600) -> str:
        """Create a file that belongs to the user and return its path."""
        return create_user_file(self.file(name), data, uid=uid, gid=gid, mode=mode)

    def pid(self) -> int:
        """Return the supervisor's pid, or 0 before it has begun."""
        text = self.read("pid")
        return int(text) if text.isdecimal() and len(text) < PID_BYTES and int(text) <= MAX_PID else 0

    def exit_status(self) -> Optional[Tuple[int, int]]:
        """Return (code, signal) once the supervisor has written them completely.

        A shell's exit code 128+n is converted to signal n.
        """
        whole = re.fullmatch(r"(\d{1,3}) (\d{1,2}) end", self.read("rc"), re.ASCII)
        if whole is None:
            return None
        code, signal = int(whole.group(1)), int(whole.group(2))
        if not signal and 128 < code <= 128 + 64:
            return 0, code - 128
        return code, signal

    def open_lock(self) -> int:
        """Return a descriptor that holds the lock, for the supervisor's standard input."""
        descriptor = os.open(self.file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def supervisor_lives(self) -> bool:
        """Return whether a process holds the lock."""
        try:
            descriptor = os.open(self.file("lock"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def remove(self) -> None:
        """Remove the folder, including the task folders in the folder of a step.

        These hold plain files only. Any other content is left to remove_tree, which takes five times as long.
        """
        try:
            for entry in list(os.scandir(self.path)):
                if entry.is_dir(follow_symlinks=False):
                    _remove_plain(entry.path)
                else:
                    os.unlink(entry.path)
            os.rmdir(self.path)
        except OSError:
            remove_tree(self.path)


def _remove_plain(path: str) -> None:
    """Remove a folder of plain files.

    It does not enter folders below it, because a user might have replaced them.
    """
    for name in os.listdir(path):
        os.unlink(f"{path}/{name}")
    os.rmdir(path)


class LaunchFolder(Folder):
    """Data of one launch: its record in the table, and a folder.

    The folder is created when the first file is put into it.
    """

    def __init__(self, path: str, table: LaunchTable, record: Optional[LaunchRecord] = None) -> None:
        super().__init__(path)
        self._table = table
        self.record = record
        self._is_empty = False
        """Whether the folder is known to hold none of our files. This spares a short launch the lookups of
        files that it might have.
        """

    def create(self, *, uid: int, gid: int, terminal: bool) -> None:
        """Take a record for a new launch. Raises OSError if the disk is full."""
        if os.path.exists(self.path):
            remove_tree(self.path)
        self.record = self._table.take()
        self._is_empty = True
        if terminal:
            self._make()
            os.mkdir(self.file("terminal"), 0o700)
            if os.geteuid() == 0:
                os.chown(self.file("terminal"), uid, gid)

    def read(self, name: str) -> str:
        return "" if self._is_empty else super().read(name)

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        self._make()
        super().write(name, text, durable=durable)

    def create_user_file(self, name: str, data: bytes = b"", *, uid: int, gid: int, mode: int = 0o600) -> str:
        """Create a file that belongs to the user and return its path."""
        self._make()
        return create_user_file(self.file(name), data, uid=uid, gid=gid, mode=mode)

    def write_meta(self, meta: Meta) -> None:
        """Store the metadata, not durably.

        A power failure ends the launch as well, and the controller detects that by the node's boot id.
        """
        assert self.record is not None
        values = {**meta.__dict__, "hold": meta.hold.__dict__}
        values["hooks"] = meta.hooks and meta.hooks.__dict__
        values["private"] = meta.private and meta.private.__dict__
        key = (meta.job_id, meta.restarts)
        try:
            self.record.begin(key, dumps(values))
        except ValueError:  # Long paths leave no space for the record of the job.
            self.record.begin(key, dumps({**values, "record": ""}))

    def meta(self) -> Meta:
        """Return the metadata that was stored when the launch began."""
        assert self.record is not None
        values: Dict[str, Any] = loads(self.record.meta())
        values["gpus"] = tuple(values.get("gpus") or ())
        values["hold"] = handle_from(values.get("hold") or {})
        values["private"] = private_from(values.get("private"))
        values["hooks"] = Hooks(**values["hooks"]) if values.get("hooks") else None
        return Meta(**values)

    @property
    def number(self) -> int:
        """Number of the launch's record in the table."""
        assert self.record is not None
        return self.record.number

    def end(self) -> Tuple[Optional[Tuple[int, int]], str]:
        """Return the end of the launch's first process.

        The result is ((code, signal), reason). The first is None if it is not known. The reason says why the
        process could not begin; it is "" if it did.
        """
        return self.record.end() if self.record is not None else (None, "")

    def pid(self) -> int:
        """Return the pid of the launch's first process, or 0 if there is none yet."""
        return self.record.process()[0] if self.record is not None else 0

    def exit_status(self) -> Optional[Tuple[int, int]]:
        """Return (code, signal), or None if it is not known."""
        return self.end()[0]

    def sync_exit(self) -> None:
        """Make the exit statuses of this and all other launches durable against a power failure."""
        self._table.sync()

    def remove(self) -> None:
        """Remove the folder and the record.

        The record goes last, because without it the folder would never be found again.
        """
        if os.path.lexists(self.path):  # few launches have a folder
            remove_tree(self.path)
        self.release()

    def keeps_output(self) -> bool:
        """Return whether the folder holds the only copy of some output."""
        return not self._is_empty and any(os.path.exists(self.file(name)) for name in ("out", "err"))

    def release(self) -> None:
        """Free the launch's record. The folder and its files stay."""
        if self.record is not None:
            self._table.release(self.record)
        self.record = None

    def _make(self) -> None:
        self._is_empty = False
        os.makedirs(self.path, mode=_passable(), exist_ok=True)


class Spool(Folder):
    """The folder in which the agent keeps its identity and its launches.

    `identity` is random and permanent. No other agent has the same, even if its folder or job ids are equal.
    """

    def __init__(self, path: str) -> None:
        super().__init__(os.path.abspath(path))
        mode = _passable()
        for name in ("", *FOLDERS):
            folder = os.path.join(self.path, name) if name else self.path
            os.makedirs(folder, mode=mode, exist_ok=True)
            os.chmod(folder, 0o700 if name == "trees" else mode)
        if not self.read("identity"):
            self.write("identity", secrets.token_hex(IDENTITY_BYTES))
        self.identity = self.read("identity")
        self._table = LaunchTable(self.file(TABLE))
        self.own = OwnFolder(self.path, (*FOLDERS, SCRIPTS))

    def launch_folder(self, job_id: int, restarts: int) -> LaunchFolder:
        """Return the folder of a launch that is new or already forgotten."""
        return LaunchFolder(self.file(f"jobs/{job_id}.{restarts}"), self._table)

    def launch_folders(self) -> Iterator[LaunchFolder]:
        """Yield all known launches, in the order of the table."""
        for record in self._table.records():
            key = record.key()
            assert key is not None, "the table names those that hold a launch"
            yield LaunchFolder(self.file(f"jobs/{key[0]}.{key[1]}"), self._table, record)

    def folders(self) -> Iterator[Folder]:
        """Yield the folders of all launches that have one, whether the launches are known or not."""
        for entry in os.scandir(self.file("jobs")):
            if entry.is_dir() and entry.name != "scripts":
                yield Folder(entry.path)


def create_user_file(path: str, data: bytes, *, uid: int, gid: int, mode: int) -> str:
    """Create a file that belongs to the user and return its path."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, data)
        if os.geteuid() == 0:
            os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)
    return path


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, or raise OSError. On a disk that is nearly full, a single write may write less."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _passable() -> int:
    """Return the mode of folders.

    Below a root agent's folders, jobs of other users must be able to reach their own files.
    """
    return 0o711 if os.geteuid() == 0 else 0o700
