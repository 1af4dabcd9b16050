"""The folders of submissions, jobs/NAME below the gateway's folder on the shared file system.

A folder is the durable intent to submit a job, and later holds the files that the job needs:

- `intent`: the request with its nonce. It is on disk before sbatch starts.
- `script`, `run`, `start`, `code`: see `wrapper`.
- `answer`, `errors`: the output of sbatch. The file `answer` exists from the moment on at which sbatch may run.
- `lock`: locked by each sbatch of this submission as long as it runs, and by the gateway that decides about the folder.
- `claim`: the link with which the started job claims the submission.
- `running-ID`: locked by the job with this id as long as it runs. Each task of an array has its own.
- `job`: the id of the job, written when the record has it.

The name follows from the nonce, so that a repeated request finds its folder. A folder appears with all of its files at
once, because it is written under another name.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.model import JobId, Request
from warpdeck.model.created_by_nonce import RequestId

from .wrapper import CLAIM, CLAIM_PREFIX, RUNNING_PREFIX

MAX_PATH_BYTES = 150
"""Maximum length of the path of a wrapper. squeue shows 160 bytes of it."""
LOCK_S = 150.0
"""Seconds for which a request waits for an earlier sbatch of the same submission, which ends after 120 s at most."""
_LOOK_S = 0.1
MAX_STARTED = 1000
"""Maximum number of tasks of one array whose ends are noticed from files at a time."""
_PARTIAL = ".new-"
_ANSWER = re.compile(r"^(\d{1,10})(?:;.*)?$", re.MULTILINE)
MAX_OUTPUT_BYTES = 64 * 1024
INTENT, RUN, ANSWER, ERRORS, LOCK, JOB = "intent", "run", "answer", "errors", "lock", "job"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """The intent to submit a job. `request_id` is None for a request without a nonce."""

    user: str
    uid: int
    request_id: RequestId | None
    at_unix: float
    requests: tuple[Request, ...]
    """All components of the job."""


@dataclass(frozen=True)
class JobFolder:
    """The folder of one submission."""

    path: str

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    @property
    def run(self) -> str:
        """The path of the wrapper, which squeue shows as the job's command."""
        return self.file(RUN)

    def exists(self) -> bool:
        return os.path.exists(self.file(INTENT))

    def intent(self) -> Intent:
        """Return the intent. Raises UserError if it cannot be read."""
        try:
            with open(self.file(INTENT), "rb") as file:
                return msgspec.json.decode(file.read(), type=Intent)
        except (OSError, msgspec.DecodeError) as error:
            raise UserError(f"cannot read {self.file(INTENT)}: {error}", "Remove this folder.") from error

    def is_started(self) -> bool:
        """Return whether an sbatch of this submission may have run."""
        return os.path.exists(self.file(ANSWER))

    def job_id(self) -> JobId | None:
        """Return the job that this submission has become, if a file tells it."""
        with suppress(OSError):
            claim = os.readlink(self.file(CLAIM)).removeprefix(CLAIM_PREFIX)
            if claim.isdecimal():
                return JobId(int(claim))
        for name in (JOB, ANSWER):
            if found := _ANSWER.findall(self.text(name)):
                return JobId(int(found[-1]))
        return None

    def started(self) -> list[JobId]:
        """Return the jobs that have begun and have a file `running-ID`, at most MAX_STARTED."""
        found: list[JobId] = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                number = entry.name.removeprefix(RUNNING_PREFIX)
                if number != entry.name and number.isdecimal():
                    found.append(JobId(int(number)))
                if len(found) >= MAX_STARTED:
                    break
        return found

    def is_running(self, job_id: JobId) -> bool:
        """Return whether a process of a job holds the lock of its file. If that cannot be told, it does."""
        try:
            descriptor = os.open(self.file(f"{RUNNING_PREFIX}{job_id}"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def ended(self, job_id: JobId) -> None:
        """Remove the file of a job that Slurm shows as ended."""
        with suppress(OSError):
            os.unlink(self.file(f"{RUNNING_PREFIX}{job_id}"))

    def text(self, name: str) -> str:
        """Return the beginning of a file, or "" if it does not exist."""
        try:
            with open(self.file(name), "rb") as file:
                return file.read(MAX_OUTPUT_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def write(self, name: str, text: str) -> None:
        """Write or replace a file completely or not at all. Raises UserError."""
        temporary = self.file(f".{name}-{secrets.token_hex(4)}")
        try:
            _write(temporary, text.encode(errors="surrogateescape"), 0o600)
            os.replace(temporary, self.file(name))
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise _not_written(self.path, error) from error

    def settled(self, job_id: JobId) -> None:
        """Note that the record has the job. A failure is harmless, because the other files tell the job, too."""
        with suppress(UserError):
            self.write(JOB, f"{job_id}\n")

    def is_settled(self) -> bool:
        return os.path.exists(self.file(JOB))

    def remove(self) -> None:
        """Remove the folder. The rename makes sure that nobody sees a part of it."""
        gone = os.path.join(os.path.dirname(self.path), f"{_PARTIAL}{secrets.token_hex(8)}")
        with suppress(OSError):
            os.rename(self.path, gone)
        shutil.rmtree(gone, ignore_errors=True)

    @asynccontextmanager
    async def locked(self, *, wait_s: float = LOCK_S) -> AsyncIterator[int | None]:
        """Yield the descriptor of the locked file `lock`, or None if the folder does not exist any more.

        A program that inherits the descriptor keeps the lock until it ends. Raises UserError if another one has the
        lock for too long.
        """
        try:
            descriptor = os.open(self.file(LOCK), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise UserError(f"cannot open {self.file(LOCK)}: {error.strerror}") from error
        try:
            await self._lock(descriptor, wait_s)
            yield descriptor if self._has(descriptor) else None
        finally:
            os.close(descriptor)

    def _has(self, descriptor: int) -> bool:
        """Return whether the locked file is still the one in the folder."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.file(LOCK)))
        except OSError:
            return False

    async def _lock(self, descriptor: int, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if loop.time() > until:
                    raise UserError(
                        f"an sbatch of this submission has been running for {wait_s:.0f} s",
                        "Send the request again later; it will not be carried out twice.",
                        code=UNCERTAIN,
                    ) from None
            except OSError as error:
                raise UserError(
                    f"cannot lock {self.file(LOCK)}: {error.strerror}",
                    "Set the key folder in the table [slurm] of config.toml to a file system with locks.",
                ) from error
            await asyncio.sleep(_LOOK_S)


class JobFolders:
    """All folders of a gateway. `folder` is the gateway's folder on the shared file system."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "jobs")

    def of(self, uid: int, request_id: RequestId | None) -> JobFolder:
        """Return the folder of a request, which may not exist yet."""
        name = (
            secrets.token_hex(12)
            if request_id is None
            else hashlib.sha256(f"{uid}:{request_id.nonce}".encode()).hexdigest()[:24]
        )
        return JobFolder(os.path.join(self.path, name))

    def all(self) -> list[JobFolder]:
        """Return the folders of all submissions."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        return [JobFolder(os.path.join(self.path, name)) for name in names if not name.startswith(".")]

    def remove_partial(self, *, before_unix: float) -> None:
        """Remove folders that were never completed, because their gateway was killed."""
        with suppress(OSError):
            for entry in os.scandir(self.path):
                if entry.name.startswith(_PARTIAL) and entry.stat().st_mtime < before_unix:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def make(
        self,
        folder: JobFolder,
        intent: Intent,
        files: Mapping[str, str],
    ) -> None:
        """Write the folder to disk, unless it exists. Raises UserError; then nothing is left."""
        if len(os.fsencode(folder.run)) > MAX_PATH_BYTES:
            raise UserError(
                f"the path {self.path} is too long",
                "Set the key folder in the table [slurm] of config.toml to a shorter path.",
            )
        partial = os.path.join(self.path, f"{_PARTIAL}{secrets.token_hex(8)}")
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            os.mkdir(partial, mode=0o700)
            for name, text in files.items():
                executable = 0o700 if name == "script" else 0o600
                _write(os.path.join(partial, name), text.encode(errors="surrogateescape"), executable)
            _write(os.path.join(partial, LOCK), b"", 0o600)
            _write(os.path.join(partial, INTENT), msgspec.json.encode(intent), 0o600)
            _sync_folder(partial)
            try:
                os.rename(partial, folder.path)
            except OSError:
                if not folder.exists():
                    raise
                return
            _sync_folder(self.path)
        except OSError as error:
            raise _not_written(self.path, error) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _not_written(path: str, error: OSError) -> UserError:
    return UserError(
        f"cannot write {path}: {error.strerror or error}",
        "Free space there, or set the key folder in the table [slurm] of config.toml to another folder. "
        "Nothing was submitted.",
    )


def _write(path: str, data: bytes, mode: int) -> None:
    """Write a new file to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
