"""The app as its screens see it: `DeckApp` implements it, and screens import only this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Any, NamedTuple, Protocol

from rich.style import Style
from textual.screen import Screen

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Reloaded

from .data.action_log import ActionLog
from .data.client_state import ClientState
from .data.connection import Core
from .table.actions import Action
from .terminal.terminal_app import TerminalApp
from .theme_manager import ThemeManager
from .user_files.settings import Settings


class Command(NamedTuple):
    """An action that can be run now. `keys` are its keys as the help prints them."""

    action: Action
    keys: str
    run: Callable[[], Awaitable[object]]

    @property
    def words(self) -> str:
        """The line below its title in the palette."""
        return f"{self.keys}   {self.action.help}"


class JobActions(Protocol):
    """Verbs on jobs, named by their keys in the queue."""

    def ask(self, verb: str, keys: Sequence[str]) -> None: ...
    def ask_limit(self, keys: Sequence[str]) -> None: ...
    def ask_priority(self, keys: Sequence[str]) -> None: ...
    def attach(self, key: str, *, watch: bool = False) -> None: ...
    async def rerun(self, key: str) -> None: ...
    def log(self, key: str) -> None: ...
    def log_of_array(self, row: JobRow) -> None: ...
    async def shell(self) -> None: ...


class Deck(TerminalApp):
    """The state and the calls that screens, dialogs and the palette share."""

    core: Core
    board: ClientState
    user: str
    everybody: bool
    readonly: bool
    chronicle: ActionLog
    lending: bool
    """Whether the terminal is about to be lent to a job, so that keys wait."""
    away: str
    """Why there is no connection, or no answer over it, and the next step; "" if all is well."""
    looks: ThemeManager
    settings: Settings

    @property
    def verbs(self) -> JobActions:
        raise NotImplementedError

    @property
    def palette(self) -> dict[str, Style]:
        """The styles of the line widgets in the present theme."""
        raise NotImplementedError

    @property
    def front(self) -> Screen[Any] | None:
        """The full screen in front, below any dialogs."""
        raise NotImplementedError

    @property
    def marks(self) -> Set[str]:
        """Keys of the jobs that are marked in the queue."""
        raise NotImplementedError

    @property
    def keymap(self) -> dict[str, str]:
        """Action id -> keys, where the user has changed them."""
        raise NotImplementedError

    def find_job(self, key: str) -> JobRow | None:
        """Return the row of a job that the board or the screen in front shows."""
        raise NotImplementedError

    def open_job(self, key: str, *, pane: str = "", channel: str = "out") -> None:
        """Open a job's page."""
        raise NotImplementedError

    def open_node(self, name: str) -> None:
        """Open the map of GPUs at a node."""
        raise NotImplementedError

    def open_user(self, user: str) -> None:
        """Open the queue with the jobs of one user."""
        raise NotImplementedError

    def new_job(self) -> None:
        """Open the submission form."""
        raise NotImplementedError

    def new_like(self, key: str) -> None:
        """Open the submission form, filled from a job."""
        raise NotImplementedError

    def changes(self, verb: str) -> bool:
        """Return whether the verb changes anything on the site."""
        raise NotImplementedError

    def tell_error(self, error: UserError) -> None:
        """Show an error and its next step."""
        raise NotImplementedError

    def tell_reloaded(self, reloaded: Reloaded) -> None:
        """Show the changes of a configuration that is in force now."""
        raise NotImplementedError

    def copy(self, text: str, *, shown: str = "") -> None:
        """Copy to the clipboard. `shown` replaces the text in the message if the text holds a secret."""
        raise NotImplementedError

    async def take_back(self, key: str = "") -> None:
        """Undo an action of the action log, by default the last one."""
        raise NotImplementedError

    def action_show_queue(self) -> None:
        """Show the queue."""
        raise NotImplementedError

    def commands(self, screen: Screen[Any]) -> Iterable[Command]:
        """Return every action that applies on this screen."""
        raise NotImplementedError
