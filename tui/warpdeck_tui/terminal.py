"""The user's own terminal: lent to an interactive job, and left when its window is closed.

Textual's suspend() resumes only when its body ends well, so everything raised inside is carried out of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from textual.app import App

from warpdeck.api.sync import SyncClient
from warpdeck.api.terminal import RelayEnd, relay
from warpdeck.errors import UserError

from .driver import is_gone

STDIN, STDOUT, STDERR = 0, 1, 2
"""The terminal itself: Textual replaces sys.stdout while it runs."""
T = TypeVar("T")


class HungUp(BaseException):
    """A signal to end came while the terminal was lent: not an Exception, so that nothing on its way keeps it."""


class Connect(Protocol):
    """Makes a connection to the controller, starting one that does not run if so asked. Raises UserError."""

    def __call__(self, *, start: bool = True) -> SyncClient: ...


def join_terminal(app: App[None], connect: Connect, label: str, *, watch: bool = False) -> str:
    """The terminal of an interactive job in the app's place until it ends or is detached; how it ended, in words.

    A controller or a node that is lost meanwhile is waited for. Ctrl-C while the job still waits gives up waiting, not the
    job. Raises UserError.
    """

    def borrow() -> RelayEnd:
        client = connect()
        try:
            leave = "q leaves it as it is" if watch else "Enter ~d detaches, Enter ~? helps"
            print(f"job {label}: {leave}", flush=True)
            return relay(
                client,
                label,
                stdin_fd=STDIN,
                stdout_fd=STDOUT,
                watch=watch,
                progress=print,
                again=lambda: connect(start=False),
            )
        finally:
            client.close()

    try:
        with _ending_signals_raise():
            ended = lend_terminal(app, borrow)
    except KeyboardInterrupt:
        return f"gave up waiting for job {label}; it goes on, a joins it"
    except HungUp:
        app.exit()
        return "leaving"
    if ended.error:
        return ended.error
    if ended.detached and watch:
        return f"job {label} goes on"
    return f"detached from job {label}; a comes back" if ended.detached else f"job {label} has ended"


def leave_at_hang_up(app: App[None]) -> None:
    """Ends the app at SIGTERM, and when its window is closed; `guard` puts the terminal back.

    Whoever writes to a terminal that is gone fails. Textual writes in a thread, starts another one when the kernel says
    SIGCONT, as it does at a hang-up, and waits at the end for one that has failed: so what is still drawn goes nowhere.
    """

    def leave(*_: object) -> None:
        if is_gone(STDERR):
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            for descriptor in (STDOUT, STDERR):
                os.dup2(nowhere, descriptor)
        app.call_later(app.exit)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


@contextlib.contextmanager
def _ending_signals_raise() -> Iterator[None]:
    """The app's own handlers wait for the event loop, which stands still while the terminal is lent."""

    def hang_up(*_: object) -> None:
        raise HungUp

    before = {number: signal.signal(number, hang_up) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_lends(app: App[None]) -> None:
    """Raises UserError where the app has no terminal to lend, as in a browser."""
    if app._driver is None or not app._driver.can_suspend:
        raise UserError("there is no terminal here to lend", "it takes a shell of your own")


def lend_terminal(app: App[None], borrow: Callable[[], T]) -> T:
    """Suspends the app, runs `borrow` on the bare terminal, and resumes; what it raises is raised afterwards.

    Raises UserError as check_lends does.
    """
    check_lends(app)
    result: list[T] = []
    failure: BaseException | None = None
    with app.suspend():
        try:
            result.append(borrow())
        except BaseException as error:
            failure = error
    if failure is not None:
        raise failure
    return result[0]
