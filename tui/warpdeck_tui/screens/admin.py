"""The "Site" screen, with the tables of the site.

They are partitions, reservations, QoS, shares, priorities with their factors, drains, events, and what-if.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.model.config_edit import Amendment
from warpdeck.notation.config.toml_edit import apply_changes
from warpdeck.protocol import requests
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import ReservationRow
from warpdeck_tui.data.rule_changes import RELOAD, RuleChanges
from warpdeck_tui.data.site_data import REQUESTS, SiteData
from warpdeck_tui.data.site_events import SiteEvents
from warpdeck_tui.data.what_if import what_if
from warpdeck_tui.screens.shared.dialogs import Ask, TextPage
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.node_verbs import NodeVerbs
from warpdeck_tui.screens.shared.preview import FIRST_COLUMNS
from warpdeck_tui.screens.shared.row_pane import JobsOfRow, RowJobs, RowPane, TableRow
from warpdeck_tui.screens.shared.stack import Stack
from warpdeck_tui.screens.shared.tab_line import TabLine
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.external_editor import edited
from warpdeck_tui.viewmodels.cells import Cell
from warpdeck_tui.viewmodels.jobs.queue import Question
from warpdeck_tui.viewmodels.site import site_tables as tables
from warpdeck_tui.viewmodels.site.events import FILTER_EXAMPLE, event_rows
from warpdeck_tui.viewmodels.site.row_details import TABLES_OF_JOBS
from warpdeck_tui.viewmodels.site.rules import KINDS
from warpdeck_tui.viewmodels.site.what_if import (
    EXAMPLE,
    MEANING,
    WhatIf,
    what_if_rows,
    what_if_words,
)
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.virtual_table import VirtualTable

from .node_add import NodeAdd
from .node_page import NodeScreen
from .reserve import Reserve, reserving
from .rule import RuleForm
from .site_tabs import NAMES, TABS, USED_WITH

HEADERS = 2
"""Number of lines above the rows: the names of the tables, and the titles of the columns."""
ASK_S = 5.0
"""Seconds between two refreshes. Only the visible table is requested, and these tables seldom change."""


class AdminScreen(NodeVerbs):
    """Shows one table at a time.

    All users may look; the controller allows only administrators to change something.
    """

    place = "admin"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (FIRST_COLUMNS, "-wide")]  # noqa: RUF012  (as Textual declares it)
    BINDINGS: ClassVar[list[BindingType]] = bindings("admin")

    def __init__(self) -> None:
        super().__init__()
        self._tab = NAMES[0]
        self._data = SiteData()
        self._site_events: SiteEvents | None = None
        self._what_if: WhatIf | None = None
        self._what_if_words = EXAMPLE
        self._simulating = ""
        self._told = ""
        self._jobs = JobsOfRow()
        self._draft = ""

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Container(id="pair"):
            table = VirtualTable(TABS[self._tab].columns, self.deck.palette, empty="", id="site")
            yield Stack(Frame(TabLine(), table, is_main=True), RowJobs())
            yield RowPane()
        yield Static("", id="told", markup=False)
        yield KeyLine()

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    def arrive(self) -> None:
        self.table.focus()
        self.every(ASK_S, self._ask)
        self._ask()
        self.draw()

    def recolour(self) -> None:
        self.table.use_palette(self.deck.palette)

    # ---- Drawing

    @work(exclusive=True, group="ask")
    async def _ask(self) -> None:
        """Request the data of the visible table.

        Nodes come from the client state instead, and a what-if result does not change.
        """
        self._told = self._untold()
        try:
            if self._tab == "events" and not self._told:
                await self._events.ask(self.deck.board.scheduler)
            elif self._tab in REQUESTS and not self._told:
                await self._data.ask(self.deck.core, self._tab)
        except UserError as error:
            self._told = error.message
        self.draw()

    def _untold(self) -> str:
        """Return why the scheduler has no data for the visible table, or "" if it has."""
        if self._tab == "events":
            return self._events.refusal(self.deck.board.scheduler)
        if self._tab not in REQUESTS:
            return ""
        return self.deck.board.scheduler.reason(str(REQUESTS[self._tab].__struct_config__.tag))

    def draw(self) -> None:
        if self.deck.front is not self:
            return
        tab, now = TABS[self._tab], time.time()
        self.table.show(self._rows(now), empty=self._told or self._nothing())
        names = [
            (f"[{each.title}]" if name == self._tab else f" {each.title} ", name == self._tab)
            for name, each in TABS.items()
        ]
        cells = tuple(Cell(words, "accent" if here else "muted") for words, here in names)
        self.query_one(TabLine).show(cells, [f"screen.table('{name}')" for name in TABS], self.deck.palette)
        self.set_head(
            f"site: {tab.title.lower()}"
            + (f"   {self._events.text}" if self._tab == "events" and self._events.text else "")
            + (f"   simulating, {self._simulating}; Esc cancels" if self._simulating else "")
        )
        self._tell()

    @property
    def _events(self) -> SiteEvents:
        if self._site_events is None:
            self._site_events = SiteEvents(self.deck.core)
        return self._site_events

    def _nothing(self) -> str:
        """Return the text for the empty table."""
        if self._tab == "events" and self._events.text:
            return f"No event matches {printable(self._events.text)}. Press Esc to clear the filter"
        tab = TABS[self._tab]
        return self.advised(tab.empty, tab.advice, tab.advised) if tab.advice else tab.empty

    def _rows(self, now: float) -> Sequence[tables.Row]:
        match self._tab:
            case "drains":
                return tables.drain_rows(self.deck.board.node_list(), now=now)
            case "events":
                return event_rows(self._events.shown(self.deck.chronicle))
            case "what-if":
                return what_if_rows(self._what_if)
            case _:
                return self._data.rows(self._tab, now=now)

    def _words(self) -> str:
        """Return a description of the row under the cursor."""
        match self._tab:
            case "drains":
                return printable(self.node.reason) if self.node is not None else ""
            case "what-if" if self._what_if is not None:
                return f"{what_if_words(self._what_if)}\n{MEANING}"
            case name if name in REQUESTS:
                return self._data.words(name, self.table.cursor_key)
            case _:
                return ""

    def _tell(self) -> None:
        """Show the row under the cursor in full: beside the table, or on a narrow terminal below it."""
        if self.is_left:
            return
        told, pane = self.query_one("#told", Static), self.query_one(RowPane)
        is_wide = self.size.width >= FIRST_COLUMNS
        told.display, pane.display = not is_wide, is_wide
        self._show_row(pane)
        if not is_wide:
            told.update(self._words(), layout=False)
        self.show_keys()

    def _show_row(self, pane: RowPane) -> None:
        """Show the row under the cursor beside the table, and its jobs below a short table."""
        key, rows, board = self.table.cursor_key, self._rows(time.time()), self.deck.board
        cells = next((cells for each, cells in rows if each == key), ())
        nodes = [board.nodes[name] for name in self._data.node_names(self._tab, key) if name in board.nodes]
        row = TableRow(self._tab, key, TABS[self._tab].columns, cells, self._words(), nodes)
        jobs = self._jobs.of(row, board.jobs.values())
        wants_below = bool(jobs) and self._tab not in TABLES_OF_JOBS
        has_below = self.query_one(Stack).fit(rows=len(rows), headers=HEADERS, wants_below=wants_below)
        if has_below:
            self.query_one(RowJobs).show_jobs(row, jobs or ())
        pane.show_row(row, None if has_below else jobs)

    def on_resize(self) -> None:
        if not self.is_left:
            self._tell()
            self.call_after_refresh(self._tell)  # the frames have their new sizes then

    def on_virtual_table_moved(self) -> None:
        self._tell()

    # ---- Navigation

    def applies(self, action: str) -> bool:
        return self._tab in USED_WITH.get(action, (self._tab,))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if self.applies(action) else False

    def variant(self, action: str) -> str:
        return self._tab if action in ("new", "change", "remove") else super().variant(action)

    def refused(self, action: str) -> str:
        if words := super().refused(action) if self.applies(action) or self.deck.readonly else "":
            return words
        if self.applies(action):
            return ""
        names = " or ".join(TABS[name].title for name in USED_WITH[action])
        return f"This key works in {names}, not in {TABS[self._tab].title}. Press Tab to go there"

    def action_next_tab(self) -> None:
        self._turn(1)

    def action_previous_tab(self) -> None:
        self._turn(-1)

    def _turn(self, by: int) -> None:
        self.show_tab(NAMES[(NAMES.index(self._tab) + by) % len(NAMES)])

    def action_table(self, name: str) -> None:
        """Show the table after a click on its name."""
        self.show_tab(name)

    def show_tab(self, name: str) -> None:
        """Show the table with this name."""
        self._tab, self._told = name, ""
        self.table.use_columns(TABS[name].columns)
        self.draw()
        self.table.action_first()
        self._ask()

    @property
    def node(self) -> NodeRow | None:
        return self.deck.board.nodes.get(self.table.cursor_key) if self._tab == "drains" else None

    @property
    def _reservation(self) -> ReservationRow | None:
        return self._data.reservation(self.table.cursor_key)

    @property
    def job_keys(self) -> list[str]:
        """The job under the cursor, in the tables of events and priorities."""
        key = self.table.cursor_key.partition(" ")[0]
        return [key] if self._tab in ("events", "priorities") and key.isdigit() else []

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        if self.job_keys:
            self.deck.navigation.open_job(self.job_keys[0])
        elif self.node is not None:
            self.app.push_screen(NodeScreen(self.node.name))
        elif self._tab == "events":
            self.action_map_then()
        elif self._tab == "accounts" and (user := event.key.partition(" ")[2]):
            self.deck.navigation.open_user(user)
        elif self.check_action("change", ()):
            self.action_change()
        elif self.applies("change") and (reason := self.impossible("change")):
            self.app.notify(reason, severity="warning", markup=False)

    def action_back(self) -> None:
        if self._simulating:
            self.workers.cancel_group(self, "what-if")
            self._simulating = ""
            self.draw()
        elif self._tab == "events" and self._events.text:
            self._filter("")
        else:
            self.deck.navigation.show_queue()

    def action_filter(self) -> None:
        """Ask for the filter of the events."""
        question = Ask(f"Filter events: {FILTER_EXAMPLE}", required="Enter a word", value=self._events.text)
        self.app.push_screen(question, lambda text: self._filter(text) if text else None)

    def _filter(self, text: str) -> None:
        self._events.text = text
        self.draw()
        self.table.action_first()

    def action_map_then(self) -> None:
        """Open the map of GPUs at the moment of the event under the cursor."""
        key = self.table.cursor_key
        for event in self._events.shown(self.deck.chronicle):
            if event.key == key:
                self.deck.navigation.open_map_at(event.at)
                return

    def action_copy(self) -> None:
        self.deck.copy(self.table.cursor_key.partition(" ")[0 if self._tab != "accounts" else 2])

    def action_copy_command(self) -> None:
        command = TABS[self._tab].command
        if command:
            self.deck.copy(f"warpdeck {command}")

    # ---- Changes

    @property
    def _rules(self) -> RuleChanges:
        return RuleChanges(self.deck.core)

    def action_new(self) -> None:
        if self._tab in KINDS:
            self._open_rule("")
        else:
            self.app.push_screen(Reserve(), self._made)

    def action_change(self) -> None:
        row = self._reservation
        if self._tab in KINDS and self.table.cursor_key:
            self._open_rule(self.table.cursor_key)
        elif row is not None:
            self.app.push_screen(Reserve(msgspec.to_builtins(row)), self._made)

    def _open_rule(self, rule: str) -> None:
        """Open the form of a QoS or a partition, filled from config.toml."""
        try:
            form = RuleForm(KINDS[self._tab], self._rules, text=self._rules.read(), rule=rule)
        except UserError as error:
            self.deck.tell_error(error)
            return
        self.app.push_screen(form, self._made)

    def _made(self, name: str | None) -> None:
        if name:
            self.table.go_to(name)
            self._ask()

    def action_remove(self) -> None:
        if self._tab in KINDS:
            self._remove_rule(KINDS[self._tab].noun, self.table.cursor_key)
            return
        row = self._reservation
        if row is None:
            return
        name = row.name

        async def remove() -> None:
            await self.deck.core.ask(requests.ReservationRemove(name=name))
            self._ask()

        self.confirmed(
            Question(f"Remove reservation {name}?", f"warpdeck reservation rm {name}"),
            remove,
            reserving(self.deck.core, msgspec.to_builtins(row), instead=False),
            done=f"Removed reservation {printable(name)}",
        )

    def _remove_rule(self, noun: str, name: str) -> None:
        if not name:
            return
        what = f"remove [{self._tab}.{name}]"
        try:
            before = self._rules.read()
            after = apply_changes(before, [Amendment(path=(self._tab, name))])
        except UserError as error:
            self.deck.tell_error(error)
            return

        async def remove() -> None:
            self.deck.tell_reloaded(await self._rules.use(after, before=before))
            self._ask()

        self.confirmed(
            Question(f"Remove {noun} {name} from config.toml?", f"{RELOAD}  # {what}"),
            remove,
            self._rules.undo(before, after=after, what=what),
            done=f"Removed {noun} {name}",
        )

    def action_add(self) -> None:
        self.app.push_screen(NodeAdd(self.deck.core))

    def action_config(self) -> None:
        """Open the site's rules in the user's editor.

        If the result is invalid, the problems are shown and nothing changes.
        """
        try:
            before = self._rules.read()
            text = edited(self.deck, self._draft or before, name=self._rules.name)
        except UserError as error:
            self.deck.tell_error(error)
            return
        if text != before:
            self._draft = text
            self.use_config(text, before=before)

    @work(exclusive=True, group="config")
    async def use_config(self, text: str, *, before: str) -> None:
        """Apply the new text of config.toml. If it is invalid, the previous text stays in effect."""
        try:
            reloaded = await self._rules.use(text, before=before)
        except UserError as error:
            problems = str(error.details.get("problems", "")) or f"{error.message}\n{error.hint}"
            words = f"{problems}\n\nNo settings were changed. Press E to continue editing your text.\n"
            self.app.push_screen(TextPage("Errors in config.toml", words, is_prose=True))
            return
        self._draft = ""
        self.deck.tell_done("Loaded config.toml", RELOAD, self._rules.undo(before, after=text, what="edit"))
        self.deck.tell_reloaded(reloaded)
        self._ask()

    def action_what_if(self) -> None:
        def run(words: str | None) -> None:
            if words:
                self._what_if_words = words
                self._simulate(words)

        if self._tab != "what-if":
            self.show_tab("what-if")
        command = "warpdeck simulate --history OPTIONS"
        title = (
            "Simulation options: --add-gpus 8, --policy fcfs-easy, --weight fairshare=1000, --config new.toml"
        )
        ask = Ask(title, required="Enter an option", command=command, value=self._what_if_words, check=_split)
        self.app.push_screen(ask, run)

    @work(exclusive=True, group="what-if")
    async def _simulate(self, words: str) -> None:
        self._simulating = "0 %"
        self.draw()
        try:
            self._what_if = await what_if(_split(words), self.deck.core.paths, self._progress)
        except UserError as error:
            self.deck.tell_error(error)
            if self.deck.front is self:
                self.action_what_if()  # with the refused options, so that the user can correct them
        finally:
            self._simulating = ""
        self.draw()

    def _progress(self, words: str) -> None:
        self._simulating = words
        self.draw()


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise UserError(f"Cannot parse the options: {error}", "Close the quotes") from error
