"""The agent's folder and one folder per launch: what a restarted agent needs to find every job again.

    D/agent.sock access.sock agent.lock agent.log identity tasks.sh task.sh supervisor.sock supervisor.lock
    D/minutes D/minutes.old    what the last day was like (see minutes.py)
    D/bin/ D/programs/         srun for jobs (see programs.py)
    D/jobs/table               a record for each launch (see table.py)
    D/jobs/scripts/            the scripts of launches (see scripts.py)
    D/jobs/<job>.<restarts>/   of few launches; the agent's: cause stopped warned forgotten steps/ (see steps.py); the user's: out err
                               terminal/
    D/lib/                     pynvml's module, unpacked and compiled
    D/work/<workspace>/        checkouts; they stay after the job
    D/trees/<sha256>.tar.gz    packed snapshots

All of this belongs to the agent, so that a root agent's jobs can neither put a link or a pipe where the agent reads nor
change what it believes of them.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

from warpdeck_agent.isolation.hold import Hold, hold_from
from warpdeck_agent.isolation.private_folders import PrivateDirs, folders_of, private_from
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.wire.jsontext import dumps, loads
from warpdeck_agent.wire.messages import Hooks

from .launch_table import LaunchTable, Record
from .own_folder import OwnFolder

IDENTITY_BYTES = 8
"""Random bytes of the agent's identity: enough that two never meet on one machine."""
FOLDERS = ("jobs", "work", "trees")
"""Those below it that launches need."""
TABLE = "jobs/table"
SCRIPTS = "jobs/scripts"
KEEP_FORGOTTEN_S = 3600.0
"""How long output that only the agent keeps can still be read after the controller let the job go."""


@dataclass
class Meta:
    """What is kept of a launch: enough to watch, end and report it. Holds neither environment nor script."""

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
    """What CUDA_VISIBLE_DEVICES calls each of them, by uuid."""
    hold: Hold = field(default_factory=Hold)
    warn_signal: int = 0
    warn_before_s: float = 0.0
    warn_batch_only: bool = False
    idle_limit_s: float = 0.0
    idle_warning_s: float = 0.0
    gpu_share_pct: int = 100
    share_grace_s: float = 10.0
    mem_bytes: int = 0
    tmp_dir: str = ""
    private: Optional[PrivateDirs] = None
    unkillable_s: float = 60.0
    script: str = ""
    """The file that it runs; others may run it too."""
    hooks: Optional[Hooks] = None
    node: str = ""
    """What the controller calls this node."""
    token: str = ""
    """With it the job's processes prove to this agent whose they are."""

    @property
    def seen_tmp_dir(self) -> str:
        """Its TMPDIR, as the launch sees it."""
        return self.private.tmp_dir if self.private is not None and not self.tmp_dir else self.tmp_dir

    def folders(self) -> List[str]:
        """What goes with the launch."""
        return folders_of(self.tmp_dir, self.private)


PID_BYTES, STATUS_BYTES = 16, 32
"""How much is kept free for what a supervisor writes."""
MAX_PID = 1 << 22
"""The kernel's own limit."""


class Folder:
    """A folder with small files that are whole or not there."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> str:
        """A small file's text, "" if there is none."""
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return file.read(65536).strip()
        except FileNotFoundError:
            return ""

    def append(self, name: str, line: str) -> None:
        """Adds a line, which survives us, but no power cut."""
        descriptor = os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def read_lines(self, name: str) -> List[str]:
        """The lines that are whole."""
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return [line for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def touched_at(self, name: str) -> float:
        """When a file was last touched, in unix seconds; 0 if there is none."""
        try:
            return os.stat(self.file(name)).st_mtime
        except OSError:
            return 0.0

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Writes a small file whole or not at all; one that is not durable survives us, but no power cut."""
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
    """A process under a shell of its own: `lock` is held (flock) by that shell through its standard input. Free and no `pid`
    means it never started; free, `pid` and no whole `rc` means it was killed. What it writes is made of spaces before."""

    def create(self, *, uid: int, gid: int) -> None:
        """Makes it, anew if an agent died before its supervisor began."""
        if os.path.exists(self.path):
            self.remove()
        os.makedirs(self.path, mode=_passable())
        for name, size in (("pid", PID_BYTES), ("rc", STATUS_BYTES)):
            self.give(name, b" " * size, uid=uid, gid=gid)

    def give(self, name: str, data: bytes = b"", *, uid: int, gid: int, mode: int = 0o600) -> str:
        """Makes a file that is the user's; its path."""
        return give(self.file(name), data, uid=uid, gid=gid, mode=mode)

    def pid(self) -> int:
        """The supervisor's pid, 0 before it has begun."""
        text = self.read("pid")
        return int(text) if text.isdecimal() and len(text) < PID_BYTES and int(text) <= MAX_PID else 0

    def exit_status(self) -> Optional[Tuple[int, int]]:
        """(code, signal) once the supervisor has written them whole. 128+n from a shell is signal n."""
        whole = re.fullmatch(r"(\d{1,3}) (\d{1,2}) end", self.read("rc"), re.ASCII)
        if whole is None:
            return None
        code, signal = int(whole.group(1)), int(whole.group(2))
        if not signal and 128 < code <= 128 + 64:
            return 0, code - 128
        return code, signal

    def open_lock(self) -> int:
        """A descriptor that holds the lock, for the supervisor's standard input."""
        descriptor = os.open(self.file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def supervisor_lives(self) -> bool:
        """Whether somebody holds the lock."""
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
        """With the folders of a step's tasks in it, if it is that. They hold plain files only; remove_tree is there for all else, at
        five times the cost."""
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
    """Goes into no folder below: whose it is, it may be another by then."""
    for name in os.listdir(path):
        os.unlink(f"{path}/{name}")
    os.rmdir(path)


class LaunchFolder(Folder):
    """One launch: its record in the table, and a folder that is made when something is put into it."""

    def __init__(self, path: str, table: LaunchTable, record: Optional[Record] = None) -> None:
        super().__init__(path)
        self._table = table
        self.record = record
        self._is_empty = False
        """Known to hold nothing of ours, so that a short launch asks for none of the files that it may have."""

    def create(self, *, uid: int, gid: int, terminal: bool) -> None:
        """A record for a new launch. Raises OSError where the disk is full."""
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

    def give(self, name: str, data: bytes = b"", *, uid: int, gid: int, mode: int = 0o600) -> str:
        """Makes a file that is the user's; its path."""
        self._make()
        return give(self.file(name), data, uid=uid, gid=gid, mode=mode)

    def write_meta(self, meta: Meta) -> None:
        """Not durable: a power cut ends the launch too, and the controller knows of it by the node's boot id."""
        assert self.record is not None
        values = {**meta.__dict__, "hold": meta.hold.__dict__}
        values["hooks"] = meta.hooks and meta.hooks.__dict__
        values["private"] = meta.private and meta.private.__dict__
        self.record.begin((meta.job_id, meta.restarts), dumps(values))

    def meta(self) -> Meta:
        """What was known at its begin."""
        assert self.record is not None
        values: Dict[str, Any] = loads(self.record.meta())
        values["gpus"] = tuple(values.get("gpus") or ())
        values["hold"] = hold_from(values.get("hold") or {})
        values["private"] = private_from(values.get("private"))
        values["hooks"] = Hooks(**values["hooks"]) if values.get("hooks") else None
        return Meta(**values)

    @property
    def number(self) -> int:
        """Which record is its."""
        assert self.record is not None
        return self.record.number

    def end(self) -> Tuple[Optional[Tuple[int, int]], str]:
        """((code, signal), None where that is not known; why its process could not begin, "" if it did)."""
        return self.record.end() if self.record is not None else (None, "")

    def pid(self) -> int:
        """The launch's first process, 0 before there is one."""
        return self.record.process()[0] if self.record is not None else 0

    def exit_status(self) -> Optional[Tuple[int, int]]:
        """(code, signal), None where that is not known."""
        return self.end()[0]

    def sync_exit(self) -> None:
        """The exit status, and those of all others, outlive a power cut from here on."""
        self._table.sync()

    def remove(self) -> None:
        """Leaves nothing. The record goes last: without it nobody would look for the rest."""
        if os.path.lexists(self.path):  # few launches have a folder
            remove_tree(self.path)
        self.release()

    def keeps_output(self) -> bool:
        """Whether there is output that nobody has but this node."""
        return not self._is_empty and any(os.path.exists(self.file(name)) for name in ("out", "err"))

    def release(self) -> None:
        """The launch is known no more; what the folder holds stays."""
        if self.record is not None:
            self._table.release(self.record)
        self.record = None

    def _make(self) -> None:
        self._is_empty = False
        os.makedirs(self.path, mode=_passable(), exist_ok=True)


class Spool(Folder):
    """The agent's folder. `identity` is random and stays: no other agent has it, wherever its folder or job ids are alike."""

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

    def job(self, job_id: int, restarts: int) -> LaunchFolder:
        """A launch that is not known yet, or no more."""
        return LaunchFolder(self.file(f"jobs/{job_id}.{restarts}"), self._table)

    def jobs(self) -> Iterator[LaunchFolder]:
        """All launches that are known, in the order of the table."""
        for record in self._table.records():
            key = record.key()
            assert key is not None, "the table names those that hold a launch"
            yield LaunchFolder(self.file(f"jobs/{key[0]}.{key[1]}"), self._table, record)

    def folders(self) -> Iterator[Folder]:
        """What launches have put into folders, known launches or not."""
        for entry in os.scandir(self.file("jobs")):
            if entry.is_dir() and entry.name != "scripts":
                yield Folder(entry.path)


def give(path: str, data: bytes, *, uid: int, gid: int, mode: int) -> str:
    """Makes a file that is the user's; its path."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, data)
        if os.geteuid() == 0:
            os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)
    return path


def write_all(descriptor: int, data: bytes) -> None:
    """All of it, or OSError: on a disk that is nearly full a single write may take less."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _passable() -> int:
    """The mode of folders: jobs of other users must be able to reach their own files below a root agent's."""
    return 0o711 if os.geteuid() == 0 else 0o700
