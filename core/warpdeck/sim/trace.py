"""Read workload logs: CSV with a header, or the Standard Workload Format (.swf, one line of 18 numbers per
job), also gzipped (.gz).

The file name determines the format. CSV needs the columns job_id, submit_s, runtime_s, and cpus or nodes/gpus
(totals of the job). The columns user, account_or_vc and timelimit_s are optional, and other columns are
ignored. A blank (SWF: a negative number) means unknown. A job without a submit time, a run time or a size
cannot be replayed and is counted as skipped. The waits in the log are never read. Jobs may be in any order.
In SWF a `;` begins a comment anywhere.

A malformed file raises UserError with file and line. SWF: Chapin et al. 1999, Parallel Workloads Archive.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from warpdeck.base.errors import UserError

MAX_JOBS = 5_000_000
"""Maximum number of jobs of one log. The largest public logs have three million; memory is the limit."""
MAX_LINE_BYTES = 64 * 1024
"""Maximum length of a line. A file with longer lines is not a log, and an endless line would fill the memory.
"""
MAX_NUMBER = 1e12
"""Maximum value of a number: 30,000 years in seconds. Larger numbers are mistakes and would lose precision.
"""

REQUIRED = ("job_id", "submit_s", "runtime_s")
SIZES = ("nodes", "gpus", "cpus")
UNKNOWN_USERS = frozenset(("", "-1"))


class TraceJob(NamedTuple):
    """One job of a log.

    Times are in seconds; `submit_s` counts from the log's own zero. 0 nodes, gpus or cpus means unknown. It
    is a NamedTuple, which is compact enough for logs with millions of jobs.
    """

    job_id: str
    submit_s: float
    run_s: float
    limit_s: float | None = None
    nodes: int = 0
    gpus: int = 0
    cpus: int = 0
    user: str = ""
    account: str = ""


class Trace(NamedTuple):
    """A log's jobs in order of submission, the number of skipped jobs, and the number of the machine's CPUs
    if the log contains it.
    """

    jobs: tuple[TraceJob, ...]
    skipped: int = 0
    machine_cpus: int | None = None


def read_trace(path: str) -> Trace:
    """Read a log. Raises UserError."""
    name = path.removesuffix(".gz")
    if not name.endswith((".csv", ".swf")):
        raise UserError(
            f"{path}: unknown log format", "use a file name that ends in .csv, .swf, .csv.gz or .swf.gz"
        )
    reader = _Swf(path) if name.endswith(".swf") else _Csv(path)
    try:
        with _open(path) as file:
            jobs = list(reader.jobs(_lines(path, file)))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not jobs:
        raise UserError(f"{path} contains no jobs that can be replayed", "see `warpdeck simulate --help`")
    jobs.sort(key=lambda job: job.submit_s)
    return Trace(jobs=tuple(jobs), skipped=reader.skipped, machine_cpus=reader.machine_cpus)


def _open(path: str) -> BinaryIO:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _unreadable(path: str, error: OSError) -> UserError:
    if isinstance(error, gzip.BadGzipFile):
        return UserError(f"{path} is not a gzip file", "remove .gz from its name, or compress it")
    return UserError(f"cannot read {path}: {os.strerror(error.errno or 0)}", "check its name and permissions")


def _lines(path: str, file: BinaryIO) -> Iterator[str]:
    """Yield the lines as text. Raises UserError with the line number for damaged archives, endless lines and
    binary data.
    """
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(MAX_LINE_BYTES + 1)
        except (EOFError, zlib.error) as error:
            raise _bad(path, number, "the gzip data is truncated or damaged") from error
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            raise _bad(path, number, f"more than {MAX_LINE_BYTES:,} bytes in one line")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _bad(path, number, "not UTF-8 text") from error


def _bad(path: str, line: int, what: str) -> UserError:
    return UserError(f"{path}:{line}: {what}", "correct or remove the line")


class _TraceReader(ABC):
    """Common part of both readers: the position in the file, and numbers with errors that contain this
    position.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.line = 0
        self.found = 0
        self.skipped = 0
        self.machine_cpus: int | None = None

    def jobs(self, lines: Iterator[str]) -> Iterator[TraceJob]:
        """Yield the jobs that can be replayed, in file order."""
        for job in self.rows(lines):
            if job is None:
                self.skipped += 1
                continue
            self.found += 1
            if self.found > MAX_JOBS:
                raise self.bad(f"more than {MAX_JOBS:,} jobs in one log")
            yield job

    @abstractmethod
    def rows(self, lines: Iterator[str]) -> Iterable[TraceJob | None]:
        """Yield one item per line of the log. It is None for a job with too little information."""

    def bad(self, what: str) -> UserError:
        return _bad(self.path, self.line, what)

    def number(self, text: str, name: str) -> float:
        """Return a number within bounds. Raises UserError."""
        try:
            value = float(text)
        except ValueError:
            raise self.bad(f"{name} is {_short(text)}, not a number") from None
        if not math.isfinite(value) or abs(value) > MAX_NUMBER:
            raise self.bad(f"{name} is {_short(text)}, which is out of range")
        return value

    def amount(self, text: str, name: str) -> float | None:
        """Return a number that is not negative, or None if blank."""
        if not text.strip():
            return None
        value = self.number(text, name)
        if value < 0:
            raise self.bad(f"{name} is {_short(text)}: it cannot be negative")
        return value

    def count(self, text: str, name: str) -> int:
        """Return a whole number, or 0 if blank."""
        value = self.amount(text, name) or 0.0
        if value != int(value):
            raise self.bad(f"{name} is {_short(text)}, not a whole number")
        return int(value)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


class _Csv(_TraceReader):
    def rows(self, lines: Iterator[str]) -> Iterable[TraceJob | None]:
        reader = csv.reader(lines, strict=True)
        header = self._next(reader)
        if header is None:
            raise UserError(
                f"{self.path} is empty", f"its first line must name the columns: {', '.join(REQUIRED)} ..."
            )
        columns = {name.strip(): index for index, name in enumerate(header)}
        self._check_header(columns)
        while (fields := self._next(reader)) is not None:
            if not fields:
                continue
            if len(fields) != len(header):
                raise self.bad(f"{len(fields)} fields, but the header has {len(header)}")
            yield self._job({name: fields[index] for name, index in columns.items()})

    def _next(self, reader: csv._reader) -> list[str] | None:  # type: ignore[name-defined]
        try:
            fields: list[str] | None = next(reader, None)
        except csv.Error as error:
            self.line = reader.line_num
            raise self.bad(f"invalid CSV: {error}") from error
        self.line = reader.line_num
        return fields

    def _check_header(self, columns: dict[str, int]) -> None:
        missing = [name for name in REQUIRED if name not in columns]
        if not any(name in columns for name in SIZES):
            missing.append("cpus (or nodes and gpus)")
        if missing:
            raise self.bad(f"missing in the header: column{'s' * (len(missing) > 1)} {', '.join(missing)}")

    def _job(self, row: dict[str, str]) -> TraceJob | None:
        submit_s = self.amount(row["submit_s"], "submit_s")
        run_s = self.amount(row["runtime_s"], "runtime_s")
        limit_s = self.amount(row.get("timelimit_s", ""), "timelimit_s")
        nodes, gpus, cpus = (self.count(row.get(name, ""), name) for name in SIZES)
        if submit_s is None or run_s is None or not (nodes or gpus or cpus):
            return None
        user = row.get("user", "").strip()
        return TraceJob(
            job_id=row["job_id"].strip(),
            submit_s=submit_s,
            run_s=run_s,
            limit_s=limit_s or None,
            nodes=nodes,
            gpus=gpus,
            cpus=cpus,
            user="" if user in UNKNOWN_USERS else user,
            account=row.get("account_or_vc", "").strip(),
        )


class _Swf(_TraceReader):
    FIELDS = 18
    PARTS = frozenset(("2", "3", "4"))
    """Statuses (field 11) of lines about one of several executions of a job. Another line contains their sum.
    """

    def rows(self, lines: Iterator[str]) -> Iterable[TraceJob | None]:
        for self.line, line in enumerate(lines, start=1):
            facts, _, comment = line.partition(";")
            if comment and not facts.strip():
                self._comment(comment)
            elif fields := facts.split():
                if len(fields) != self.FIELDS:
                    raise self.bad(
                        f"{len(fields)} fields; a line of the Standard Workload Format has {self.FIELDS}"
                    )
                yield self._job(fields)

    def _comment(self, comment: str) -> None:
        """Read the machine's size from a header line such as "; MaxProcs: 128"."""
        key, _, value = comment.lstrip("; \t").partition(":")
        if key.strip().lower() == "maxprocs" and value.strip().isdecimal():
            self.machine_cpus = int(value) or None

    def _job(self, fields: list[str]) -> TraceJob | None:
        submit_s = self._known(fields[1], "the submit time (field 2)")
        run_s = self._known(fields[3], "the run time (field 4)")
        used = self._known(fields[4], "the processors used (field 5)")
        requested = self._known(fields[7], "the requested processors (field 8)")
        limit_s = self._known(fields[8], "the requested time (field 9)")
        cpus = int(requested or used or 0)
        if submit_s is None or run_s is None or not cpus or fields[10] in self.PARTS:
            return None
        return TraceJob(
            job_id=fields[0],
            submit_s=submit_s,
            run_s=run_s,
            limit_s=limit_s or None,
            cpus=cpus,
            user="" if fields[11] in UNKNOWN_USERS else fields[11],
            account="" if fields[12] in UNKNOWN_USERS else fields[12],
        )

    def _known(self, text: str, name: str) -> float | None:
        """Return a number, or None if it is negative. Real logs contain computed differences below 0."""
        value = self.number(text, name)
        return None if value < 0 else value
