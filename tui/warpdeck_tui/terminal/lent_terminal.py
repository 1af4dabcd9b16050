"""The user's own terminal: lent to an interactive job, and left when its window is closed.

Textual's suspend() resumes only when its body ends well, so everything raised inside is carried out of it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from textual.app import App

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.terminal import RelayEnd, is_gone, relay

STDIN, STDOUT, STDERR = 0, 1, 2
"""The terminal itself: Textual replaces sys.stdout while it runs."""
T = TypeVar("T")


class HungUp(BaseException):
    """A signal to end came while the terminal was lent. It is no Exception, so that no handler on its way stops it."""


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
        ended = lend_terminal(app, borrow)
    except KeyboardInterrupt:
        return f"gave up waiting for job {label}; it goes on, a joins it"
    if ended.error:
        return ended.error
    if ended.detached and watch:
        return f"job {label} goes on"
    return f"detached from job {label}; a comes back" if ended.detached else f"job {label} has ended"


def leave_at_hang_up(app: App[None]) -> None:
    """Ends the app at SIGTERM, and when its window is closed; `guard` puts the terminal back.

    What is still drawn on a closed terminal is dropped by the driver.
    """

    def leave(*_: object) -> None:
        app.call_later(app.exit)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


@contextlib.contextmanager
def _ending_signals_raise() -> Iterator[None]:
    """Raise HungUp at the first signal to end: the app's own handlers wait for the event loop, which stands still meanwhile."""

    def hang_up(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
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

    If the terminal is closed meanwhile, or a signal to end comes, the app exits. Raises UserError then, and as check_lends does.
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
        raise UserError("The terminal was closed, so the app ends.", "`warpdeck` opens it again")
    if failure is not None:
        raise failure
    return result[0]
