"""Hands the user's terminal over to an interactive job, and ends the app when the terminal closes.

Textual's suspend() resumes only if its body ends normally, so exceptions are caught inside it and raised
after it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar

from textual.app import App

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.terminal import RelayEnd, is_gone, relay

STDIN, STDOUT, STDERR = 0, 1, 2
"""File descriptors of the terminal itself. Textual replaces sys.stdout while it runs."""
T = TypeVar("T")


class HungUp(BaseException):
    """A terminating signal arrived while the terminal was handed over.

    It is not an Exception, so that no ordinary handler catches it.
    """


class Connects(Protocol):
    """Connects to the controller of a home. `data.connection.ServerConnection` implements it."""

    @property
    def paths(self) -> Paths:
        """The files of the home."""
        ...

    def relay_client(self, *, start: bool = True) -> SyncClient:
        """Return a new connection. With `start`, start a controller if none runs. Raises UserError."""
        ...


class Lender(Protocol):
    """The app as the owner of the terminal."""

    @property
    def can_lend(self) -> bool:
        """Whether the app has a terminal that it can hand over. It has none in a browser."""
        ...

    def suspend(self) -> AbstractContextManager[None]:
        """Leave the terminal within this context."""
        ...

    def exit(self) -> None:
        """End the app."""


class Joined(NamedTuple):
    """How the user left the terminal of a job. The job may continue."""

    words: str
    continues: bool = False


def join_terminal(app: Lender, core: Connects, label: str, *, watch: bool = False) -> Joined:
    """Show the terminal of an interactive job in place of the app, until the job ends or the user detaches.

    Returns a message that says how it ended. If the controller or the node is lost meanwhile, the function
    waits for it. Ctrl-C while the job is still waiting ends only the wait, not the job. Raises UserError.
    """

    # The first frame does not need the module.
    from warpdeck.client.open_terminals import shown

    def borrow() -> RelayEnd:
        client = core.relay_client()
        try:
            leave = "press q to leave" if watch else "to detach: press Enter, then ~ d (~ ? shows help)"
            print(f"job {label}: {leave}", flush=True)
            with contextlib.nullcontext() if watch else shown(core.paths, label):
                return relay(
                    client,
                    label,
                    stdin_fd=STDIN,
                    stdout_fd=STDOUT,
                    watch=watch,
                    progress=lambda told: print(f"{told}. Ctrl-C stops waiting", flush=True),
                    again=lambda: core.relay_client(start=False),
                )
        finally:
            client.close()

    try:
        ended = lend_terminal(app, borrow)
    except KeyboardInterrupt:
        return Joined(f"Stopped waiting for job {label}", continues=True)
    if ended.error:
        return Joined(ended.error)
    if ended.detached:
        return Joined(f"Left job {label}" if watch else f"Detached from job {label}", continues=True)
    return Joined(f"Job {label} has ended")


def leave_at_hang_up(app: App[None]) -> None:
    """End the app at SIGTERM and when its window is closed; `guard` then restores the terminal.

    The driver drops everything that is still drawn on a closed terminal.
    """

    def leave(*_: object) -> None:
        app.call_later(app.exit)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


@contextlib.contextmanager
def _ending_signals_raise() -> Iterator[None]:
    """Raise HungUp at the first terminating signal within this context, and KeyboardInterrupt at Ctrl-C.

    The handlers of the app and of asyncio cannot be used, because they wait for the event loop, which does not run
    meanwhile.
    """

    def hang_up(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise HungUp

    before = {number: signal.signal(number, hang_up) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_lends(app: Lender) -> None:
    """Raise UserError if the app has no terminal that it could hand over, for example in a browser."""
    if not app.can_lend:
        raise UserError("Cannot open a terminal here", "Run `warpdeck` in a shell")


def lend_terminal(app: Lender, borrow: Callable[[], T]) -> T:
    """Suspend the app, run `borrow` on the bare terminal, and resume.

    Exceptions of `borrow` are raised afterwards. If the terminal is closed meanwhile, or a terminating signal
    arrives, the app exits and UserError is raised. UserError is also raised as in `check_lends`.
    """
    check_lends(app)
    result: list[T] = []
    failure: BaseException | None = None
    with app.suspend():
        try:
            with _ending_signals_raise():
                result.append(borrow())
        except BaseException as error:
            failure = error
    if isinstance(failure, HungUp) or is_gone(STDIN):
        app.exit()
        raise UserError("The terminal was closed, so the app exits", "Run `warpdeck` to open it again")
    if failure is not None:
        raise failure
    return result[0]
