"""The parts that the processes of all engines share: lock, log, signals, and the report of an error at the start."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import uvloop

from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.engine_choice import claim_home
from warpdeck.base.errors import StoreError, UserError
from warpdeck.base.home_owner import owned
from warpdeck.base.paths import SLURM, Paths
from warpdeck.base.standby_files import MOVED
from warpdeck.base.systemd_units import MOVED_STATUS
from warpdeck.daemon.log_limit import RateLimit
from warpdeck.fleet.openfiles import raise_limit

log = logging.getLogger("warpdeck")

MAX_LOG_BYTES = 16 * 1024 * 1024
"""Size in bytes at which the log file is renamed, for example to controller.log.1."""


class Signals(NamedTuple):
    """The signals that arrived: SIGTERM or SIGINT, and SIGHUP."""

    stop: asyncio.Event
    reload_requested: asyncio.Event


def argument_parser(daemon: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every process of a home."""
    parser = argparse.ArgumentParser(prog=f"warpdeck.{daemon}")
    parser.add_argument("--home", required=True)
    return parser


def run_process(paths: Paths, serve: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Take the lock of the home folder and serve. Return the exit status.

    `serve` calls `handle_signals` first, and `leave_starter` when clients can connect. An error at the start is
    printed to standard error, for the process that started this one.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # Blocked until a handler is installed.
    os.umask(0o077)
    status = 0
    try:
        # The lock is released when the process ends. Waiting for the lock is therefore the same as waiting
        # for the process to end.
        take_lock(paths)
        start_log(paths)
        raise_limit()
        with _owned(paths), _claimed(paths), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
        gc.freeze()  # With frozen objects the interpreter skips one more full collection at its exit.
    except* (UserError, StoreError, OSError) as group:
        error = _first(group)
        status = MOVED_STATUS if isinstance(error, UserError) and error.code == MOVED else 1
        _print_error(error)
    except* Exception:
        status = 1
        log.exception("a bug ended the %s", paths.daemon)
    return status


def _owned(paths: Paths) -> contextlib.AbstractContextManager[None]:
    """Own the home among all machines that share it. The home of a controller is on a local disk."""
    return owned(paths) if paths.engine == SLURM else contextlib.nullcontext()


@contextlib.contextmanager
def _claimed(paths: Paths) -> Iterator[None]:
    """Record the engine of a new home, unless the process ends before the home has a database. Raises UserError."""
    is_new = not paths.recorded_engine
    claim_home(paths)
    try:
        yield
    finally:
        if is_new and not os.path.exists(paths.database):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(paths.engine_file)


def handle_signals() -> Signals:
    """Handle signals in the running event loop. A SIGHUP that arrived before is handled now."""
    found = Signals(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, found.stop.set)
    loop.add_signal_handler(signal.SIGHUP, found.reload_requested.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    return found


def start_log(paths: Paths) -> None:
    """Log to a file of bounded size.

    When both files are full, the older one with MAX_LOG_BYTES of log lines is deleted.
    """
    handler = logging.handlers.RotatingFileHandler(paths.log, maxBytes=MAX_LOG_BYTES, backupCount=1)
    handler.addFilter(RateLimit())
    line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handlers: list[logging.Handler] = [handler]
    if writes_to_journal():
        journal = logging.StreamHandler(sys.stderr)
        journal.addFilter(RateLimit())
        journal.setFormatter(JournalFormatter("%(name)s: %(message)s"))
        handlers.append(journal)
    logging.basicConfig(level=logging.INFO, format=line, handlers=handlers)
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    logging.raiseExceptions = (
        # A log line that cannot be written because the disk is full is lost. An error message about it would
        # be lost as well.
        False
    )


class JournalFormatter(logging.Formatter):
    """Puts the priority before each line, as journald reads it. The journal adds the time."""

    def format(self, record: logging.LogRecord) -> str:
        priority = 3 if record.levelno >= logging.ERROR else 4 if record.levelno >= logging.WARNING else 6
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def writes_to_journal() -> bool:
    """Return whether standard error goes to systemd's journal.

    systemd sets the variable to the device and inode of that stream. Processes that were started later inherit the variable,
    but not the stream.
    """
    found = os.fstat(sys.stderr.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def leave_starter(paths: Paths) -> None:
    """Redirect standard error to the log file, because its reader has ended. The journal goes on reading.

    The interpreter itself may still write to standard error.
    """
    if writes_to_journal():
        return
    descriptor = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)


def _first(error: Exception) -> Exception:
    """Return the first error of a group, at any depth."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _print_error(error: Exception) -> None:
    log.error("%s", error)
    print(error, file=sys.stderr)
    if isinstance(error, UserError) and error.hint:
        print(error.hint, file=sys.stderr)
