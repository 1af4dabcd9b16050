"""The app as screens, dialogs and the palette know it. `app.DeckApp` implements these protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence, Set
from typing import Any, NamedTuple, Protocol, TypeVar

from rich.style import Style
from textual.notifications import SeverityLevel
from textual.screen import Screen

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Reloaded

from .data.action_log import ActionLog, Undo
from .data.client_state import ClientState
from .data.server_requests import Core
from .table.actions import Action
from .terminal.keyboard import Keyboard
from .terminal.lent_terminal import Lender
from .terminal.terminal_app import Pace
from .theme_manager import ThemeManager
from .user_files.settings import Settings

R = TypeVar("R")


class Command(NamedTuple):
    """An action that can be run now. `keys` are its keys as the help prints them.

    If the scheduler cannot do it, `reason` says why, and `run` only shows the reason.
    """

    action: Action
    keys: str
    run: Callable[[], Awaitable[object]]
    reason: str = ""

    @property
    def words(self) -> str:
        """The line below its title in the palette."""
        return f"{self.keys}   {self.reason or self.action.help}"


class JobActions(Protocol):
    """Verbs on jobs, named by their keys in the queue."""

    def ask(self, verb: str, keys: Sequence[str]) -> None: ...
    def ask_limit(self, keys: Sequence[str]) -> None: ...
    def ask_priority(self, keys: Sequence[str]) -> None: ...
    def attach(self, key: str, *, watch: bool = False) -> None: ...
    async def rerun(self, key: str) -> None: ...
    def log(self, key: str) -> None: ...
    def log_of_array(self, row: JobRow) -> None: ...
    def shell(self) -> None: ...


class Navigation(Protocol):
    """The methods that open screens."""

    def show_queue(self) -> None:
        """Close all screens above the queue."""

    def open_job(self, key: str, *, pane: str = "", channel: str = "out", others: Sequence[str] = ()) -> None:
        """Open the page of the job with this id. Its metrics are compared with those of `others`."""

    def open_runs(self, row: JobRow) -> None:
        """Open the table of the runs that belong to this job."""

    def point_at(self, key: str) -> bool:
        """Move the cursor of the screen in front to the job with this id.

        Return whether an action on jobs, such as attach, then applies to it.
        """
        ...

    def open_node(self, name: str) -> None:
        """Open the screen of nodes, with the cursor on this node."""

    def open_map_at(self, at: float) -> None:
        """Open the map of GPUs at a past time, in unix seconds."""

    def open_node_page(self, name: str) -> None:
        """Open the page of this node above the screen in front."""

    def open_user(self, user: str) -> None:
        """Open the queue, filtered to the jobs of this user."""

    def filter_queue(self, text: str) -> None:
        """Open the queue with this filter."""

    def sort_queue(self, column: str) -> None:
        """Open the queue, sorted by this column."""

    def open_queue(self, filter_text: str) -> None:
        """Open the queue with the jobs of all users that match a filter."""

    def open_history(self, filter_text: str) -> None:
        """Open the history with a filter, above the screen in front."""


class Forms(Protocol):
    """Opens the "New job" form."""

    def open_new(self) -> None: ...
    def open_like(self, key: str) -> None: ...


class FrontScreen(Protocol):
    """The full screen in front, below any dialogs."""

    @property
    def job_keys(self) -> list[str]:
        """The jobs that an action on jobs applies to."""
        ...


class Deck(Lender, Protocol):
    """The state and the calls that screens, dialogs and the palette share."""

    core: Core
    board: ClientState
    chronicle: ActionLog
    looks: ThemeManager
    settings: Settings
    keyboard: Keyboard
    everybody: bool
    """Whether lists show the jobs of all users."""
    readonly: bool
    low_bandwidth: bool
    lending: bool
    """True while the terminal is about to be handed over to a job. Keys wait meanwhile."""

    @property
    def verbs(self) -> JobActions: ...
    @property
    def navigation(self) -> Navigation: ...
    @property
    def forms(self) -> Forms: ...
    @property
    def pace(self) -> Pace: ...

    @property
    def palette(self) -> dict[str, Style]:
        """Map style names of the line widgets to their styles in the current theme."""
        ...

    @property
    def front(self) -> FrontScreen | None:
        """The screen in front, or None if there is none that can be drawn."""
        ...

    @property
    def marks(self) -> Set[str]:
        """The keys of the rows that are marked in the queue."""
        ...

    @property
    def keymap(self) -> dict[str, str]:
        """Map binding ids to keys, for those actions to which the user gave other keys than the default ones."""
        ...

    def find_job(self, key: str) -> JobRow | None:
        """Return the job's row from the client state or from the screen that shows it, or None."""

    def tell_error(self, error: UserError) -> None:
        """Show an error as one sentence and the next step."""

    def tell_reloaded(self, reloaded: Reloaded) -> None:
        """Show which settings changed when config.toml was read again."""

    def tell_done(self, words: str, command: str, undo: Undo | None = None) -> None:
        """Record a change in the action log, and tell the user about it and about the key that undoes it."""

    def ask_drain(self, name: str) -> None:
        """Ask for the reason and drain the node with this name or, if it is drained already, ask and resume it."""

    def copy(self, text: str, *, shown: str = "") -> None:
        """Copy the text to the terminal's clipboard (OSC 52), to the buffer of tmux and to a file.

        The file serves terminals that have neither of the other two. `shown` is displayed in place of the
        text if the text contains a secret.
        """

    def offer_welcome(self) -> None:
        """Show the welcome page if the queue is in front and there has never been a job."""

    async def take_back(self, key: str = "") -> None:
        """Undo the latest change, or the change with this key. If that is impossible, show why."""

    def commands(self, screen: Screen[Any]) -> Iterable[Command]:
        """Yield the entries of the command palette: every action that applies to the screen in front."""
        ...

    def paint_words(self) -> str:
        """Return how long the last key took until its effect was written, or "" if that is switched off."""
        ...

    # Methods of Textual's App

    def notify(
        self, message: str, *, severity: SeverityLevel = "information", markup: bool = True
    ) -> None: ...
    def push_screen(
        self, screen: Screen[R], callback: Callable[[R | None], None] | None = None
    ) -> object: ...
    def run_worker(
        self, work: Coroutine[Any, Any, None], *, group: str = "default", exclusive: bool = False
    ) -> object: ...
    def set_timer(self, delay: float, callback: Callable[[], None]) -> object: ...
    def write_sequence(self, text: str) -> None:
        """Write a sequence to the terminal that neither moves the cursor nor shows anything."""
