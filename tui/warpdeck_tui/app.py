"""The app: wires the core's deltas to the screens and the screens' wishes to the core."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.style import Style
from textual import work
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from warpdeck.api.sync import SyncClient
from warpdeck.api.terminal import RelayEnd, relay, window_size
from warpdeck.errors import UserError
from warpdeck.paths import Paths, default_paths

from .actions import ACTIONS, bindings, help_lines
from .client import Core
from .screens.dialogs import Confirm, NewJob, Page
from .screens.gpus import GpuScreen
from .screens.job import JobScreen
from .screens.queue import QueueScreen
from .themes import ThemeFile, all_themes, text_styles, to_textual

FALLBACK_THEME = "deck-dark"
STDIN, STDOUT = 0, 1
"""The terminal itself: Textual replaces sys.stdout while it runs."""


class DeckApp(App[None]):
    """The full-screen app."""

    TITLE = "warpdeck"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]
    CSS = """
    #head { background: $panel; color: $primary; width: 100%; height: 1; text-style: bold; }
    #queue, #grid, #log { height: 1fr; background: $background; }
    #under { height: 9; background: $surface; padding: 0 1; }
    #facts { height: auto; max-height: 60%; background: $surface; padding: 0 1; }
    Confirm, Page, Ask, NewJob { align: center middle; }
    .dialog { width: 76; max-width: 95%; height: auto; max-height: 95%; padding: 1 2; background: $panel; }
    .tall { height: 90%; width: 95%; }
    .dialog Input { height: 1; border: none; padding: 0 1; background: $surface; }
    .title { text-style: bold; color: $accent; }
    .muted, .keys { color: $secondary; }
    #error { color: $error; }
    """

    def __init__(self, paths: Paths | None = None) -> None:
        super().__init__()
        self.core = Core(paths or default_paths())
        self.user = getpass.getuser()
        self.everybody = False
        self.filter_text = ""
        self.ready = False
        self.link_words = "connecting ..."
        self.jobs: dict[int, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.theme_files: dict[str, ThemeFile] = {}
        self.notices: list[str] = []

    @property
    def palette(self) -> dict[str, Style]:
        """The line widgets' styles in the present theme."""
        chosen = self.theme_files.get(self.theme)
        return text_styles(chosen) if chosen else {"cursor": Style(reverse=True)}

    def on_mount(self) -> None:
        themes, self.notices = all_themes()
        for theme in themes:
            self.register_theme(to_textual(theme))
            self.theme_files[theme.name] = theme
        if FALLBACK_THEME in self.theme_files:
            self.theme = FALLBACK_THEME
        self.push_screen(QueueScreen())
        for notice in self.notices:
            self.notify(notice, severity="warning")
        self._watch()

    def on_unmount(self) -> None:
        self.core.close()

    @work(thread=True)
    def _watch(self) -> None:
        self.core.watch(
            lambda delta: self._from_thread(self.take_delta, delta),
            lambda words: self._from_thread(self._link, words),
        )

    def _from_thread(self, call: Any, value: Any) -> None:
        # The app may be closing: then nobody wants it any more.
        with contextlib.suppress(RuntimeError):
            self.call_from_thread(call, value)

    def _link(self, words: str) -> None:
        self.link_words = words
        self.redraw()

    def take_delta(self, delta: dict[str, Any]) -> None:
        """What has changed."""
        for row in delta["jobs"]:
            self.jobs[row["id"]] = row
        for job_id in delta["gone_jobs"]:
            self.jobs.pop(job_id, None)
        for row in delta["nodes"]:
            self.nodes[row["name"]] = row
        for name in delta["gone_nodes"]:
            self.nodes.pop(name, None)
        self.ready = self.ready or delta["ready"]
        self.redraw()

    def redraw(self) -> None:
        """The screen in front draws what it shows."""
        if isinstance(self.screen, QueueScreen | GpuScreen):
            self.screen.draw()

    def open_job(self, key: str) -> None:
        """The page of the job with that id; of an array's waiting rest its facts."""
        row = self.jobs.get(int(key))
        if row is not None:
            label = str(row["id"]) if row["tasks_pending"] else str(row["label"])
            self.push_screen(JobScreen(label))

    def change(self, verb: str, key: str) -> None:
        """Cancels, holds, releases or requeues, once confirmed."""
        if not key:
            return
        row = self.jobs.get(int(key)) if key.isdigit() else None
        label = str(row["array_job_id"] if row["tasks_pending"] else row["label"]) if row else key

        def act(sure: bool | None) -> None:
            if sure:
                self.ask_core(verb, jobs=[label])

        self.push_screen(Confirm(f"{verb.capitalize()} job {label}?", f"warpdeck {verb} {label}"), act)

    @work(thread=True)
    def ask_core(self, kind: str, **fields: Any) -> None:
        """A request whose answer is only told."""
        try:
            answer = self.core.call(kind, **fields)
        except UserError as error:
            self.call_from_thread(self._tell_error, error)
            return
        for refused in answer.get("errors", ()):
            self.call_from_thread(self.notify, refused, severity="error")

    def _tell_error(self, error: UserError) -> None:
        self.notify(f"{error.message}\n{error.hint}".strip(), severity="error", markup=False)

    def attach(self, key: str) -> None:
        """The terminal of an interactive job, in place of the app until it ends or is detached."""
        row = self.jobs.get(int(key)) if key.isdigit() else None
        label = str(row["label"]) if row else key
        self._leave_for(label)

    def _leave_for(self, label: str) -> None:
        try:
            ended = self._relay(label)
        except UserError as error:
            self._tell_error(error)
            return
        words = f"detached from job {label}" if ended.detached else ended.error or f"job {label} has ended"
        self.notify(words, markup=False)

    def _relay(self, label: str) -> RelayEnd:
        client = SyncClient.connect(self.core.paths)
        failure: UserError | None = None
        ended = RelayEnd(detached=True)
        with self.suspend():
            # An exception inside suspend() would leave the app suspended for ever.
            try:
                print(f"job {label}: Enter ~d detaches, Enter ~? helps", flush=True)
                ended = relay(
                    client,
                    label,
                    stdin_fd=STDIN,
                    stdout_fd=STDOUT,
                    progress=print,
                )
            except (UserError, KeyboardInterrupt) as error:
                failure = error if isinstance(error, UserError) else None
            finally:
                client.close()
        if failure is not None:
            raise failure
        return ended

    def action_shell(self) -> None:
        gpus = int(any(node["gpus"] for node in self.nodes.values()))
        rows, cols = window_size(STDOUT)
        try:
            label = self.core.shell(gpus=gpus, rows=rows, cols=cols)
        except UserError as error:
            self._tell_error(error)
            return
        self._leave_for(label)

    def action_new_job(self) -> None:
        def submit(filled: tuple[str, list[str]] | None) -> None:
            if filled is not None:
                self._submit(*filled)

        self.push_screen(NewJob(), submit)

    @work(thread=True)
    def _submit(self, script: str, options: list[str]) -> None:
        try:
            done = self.core.submit(script, options, cwd=os.getcwd())
        except UserError as error:
            self.call_from_thread(self._tell_error, error)
            return
        self.call_from_thread(self.notify, f"submitted job {done.label}", markup=False)

    def action_show_queue(self) -> None:
        while len(self.screen_stack) > 2:
            self.pop_screen()

    def action_show_gpus(self) -> None:
        self.action_show_queue()
        self.push_screen(GpuScreen())

    def action_help(self) -> None:
        self.push_screen(Page("Keys", "\n".join(help_lines())))

    def action_next_theme(self) -> None:
        names = sorted(self.theme_files)
        if names:
            at = names.index(self.theme) if self.theme in names else -1
            self.theme = names[(at + 1) % len(names)]
            if isinstance(self.screen, QueueScreen | GpuScreen):
                self.screen.on_screen_resume()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action that counts on the screen in front."""
        where = {"QueueScreen": "queue", "GpuScreen": "gpus", "JobScreen": "job"}.get(
            type(screen).__name__, ""
        )
        for action in ACTIONS:
            if action.where == "app":
                yield SystemCommand(action.title, action.help, getattr(self, f"action_{action.id}"))
            elif action.where == where:
                yield SystemCommand(action.title, action.help, getattr(screen, f"action_{action.id}"))


def main(*, everybody: bool = False) -> int:
    """Opens the app on the default home."""
    if not sys.stdout.isatty():
        raise UserError("the app needs a terminal", "see `warpdeck --help` for the verbs")
    app = DeckApp()
    app.everybody = everybody
    app.run()
    return 0
