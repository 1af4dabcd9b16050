"""The "Code" pane of a job's page: the tree of files in its snapshot, and their contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.jobs import job as view
from warpdeck_tui.viewmodels.jobs.tree import Tree, tree_of, tree_rows
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .deck_screen import Folded
from .dialogs import TextPage

UNTITLED = (Column("", 0, key="file"),)
"""Columns without titles, used while there is no tree."""
COLUMNS = (Column("FILE", 0, key="file"), Column("", 12, 1, key="files", align="right"))


class CodePane(Vertical):
    """The pane of a job's code. The list of files is requested only once, because a snapshot does not
    change.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._snapshot: Mapping[str, Any] | None = None
        self._tree = Tree()
        self._asked = False

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def compose(self) -> ComposeResult:
        yield Static("", id="codehead", markup=False)
        yield VirtualTable(UNTITLED, self.deck.palette, empty="", id="codetree")

    def focus(self, scroll_visible: bool = True) -> CodePane:
        self.query_one(VirtualTable).focus(scroll_visible)
        return self

    def recolour(self) -> None:
        """Apply the current theme."""
        self.query_one(VirtualTable).use_palette(self.deck.palette)
        self._show_head("")

    @work(exclusive=True, group="code")
    async def look(self, snapshot: Mapping[str, Any] | None) -> None:
        """Request the list of files the first time that the pane is shown."""
        if self._asked:
            return
        self._asked, self._snapshot = True, snapshot
        trouble = ""
        try:
            self._tree = tree_of(await self.deck.core.files(snapshot)) if snapshot else Tree()
        except UserError as error:
            trouble = f"{error.message}. {error.hint}"
        self._show_head(trouble)
        self._show()

    def _show_head(self, trouble: str) -> None:
        lines = view.code_lines(self._snapshot, len(self._tree.files), trouble=trouble)
        self.query_one("#codehead", Static).update(Folded(lines, self.deck.palette))

    def _show(self) -> None:
        table = self.query_one(VirtualTable)
        table.use_columns(COLUMNS if self._tree.files else UNTITLED)
        table.show(tree_rows(self._tree))

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        """Open or close a folder, or show a file."""
        event.stop()
        if event.key.endswith("/"):
            self._tree = self._tree.turned(event.key.rstrip("/"))
            self._show()
        else:
            self._read(event.key)

    @work(exclusive=True, group="file")
    async def _read(self, path: str) -> None:
        if self._snapshot is None:
            return
        try:
            text = view.file_text(await self.deck.core.file(self._snapshot, path))
        except UserError as error:
            self.deck.tell_error(error)
            return
        self.app.push_screen(TextPage(f"{printable(path)}   (job snapshot)", text))
