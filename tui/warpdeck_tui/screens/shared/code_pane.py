"""The "Code" pane of a job's page: the tree of files in its snapshot, and their changes since the commit.

On a wide terminal, the changes or the content of the file under the cursor are shown beside the tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.cells import Cell, Line
from warpdeck_tui.viewmodels.diffs.layout import file_lines, shown
from warpdeck_tui.viewmodels.diffs.parsing import FileDiff, parse
from warpdeck_tui.viewmodels.jobs import job as view
from warpdeck_tui.viewmodels.jobs.tree import Tree, tree_of, tree_rows
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.scrolled_lines import ScrolledLines
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .deck_screen import Folded
from .dialogs import TextPage

UNTITLED = (Column("", 0, key="file"),)
"""Columns without titles, used while there is no tree."""
COLUMNS = (
    Column("FILE", 0, key="file"),
    Column("ADDED", 6, key="added", align="right"),
    Column("REMOVED", 7, key="removed", align="right"),
    Column("", 12, 1, key="files", align="right"),
)
WIDE_FROM = 110
"""Least width at which a file is shown beside the tree."""
MAX_PREVIEW_LINES = 400


class CodePane(Vertical):
    """The pane of a job's code. The list of files is requested only once, because a snapshot does not
    change.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._snapshot: Mapping[str, Any] | None = None
        self._tree = Tree()
        self._changed: dict[str, FileDiff] = {}
        self._state = view.CodeState()
        self._asked = False

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def compose(self) -> ComposeResult:
        yield Static("", id="codehead", markup=False)
        with Horizontal(id="codesplit"):
            yield VirtualTable(UNTITLED, self.deck.palette, empty="", id="codetree")
            file = ScrolledLines(self.deck.palette, id="codefile")
            file.display = False
            yield file

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Show the file beside the tree if there is space. A screen that is left early has no such widgets."""
        for file in self.query(ScrolledLines):
            was, file.display = file.display, self.size.width >= WIDE_FROM and bool(self._tree.files)
            if file.display and not was:
                self._preview(self.query_one(VirtualTable).cursor_key)

    def focus(self, scroll_visible: bool = True) -> CodePane:
        self.query_one(VirtualTable).focus(scroll_visible)
        return self

    def recolour(self) -> None:
        """Apply the current theme."""
        self.query_one(VirtualTable).use_palette(self.deck.palette)
        self._show_head()

    @work(exclusive=True, group="code")
    async def look(self, detail: JobDetail) -> None:
        """Request the list of files the first time that the pane is shown."""
        if self._asked:
            return
        snapshot = detail.snapshot
        self._asked, self._snapshot = True, snapshot
        is_foreign = not detail.submit_line and not self.deck.board.scheduler.is_own
        self._state = self._state._replace(is_foreign=is_foreign)
        core = self.deck.core
        try:
            self._tree = tree_of(await core.files(snapshot)) if snapshot else Tree()
            self._state = self._state._replace(files=len(self._tree.files))
        except UserError as error:
            self._state = self._state._replace(trouble=f"{error.message}. {error.hint}")
        self._show()
        if snapshot and not self._state.trouble:
            with contextlib.suppress(UserError):  # the pane is useful without the branch and the changes
                self._state = self._state._replace(branch=await core.branch(snapshot))
                self._use(
                    parse(await core.diff_with_commit(snapshot)).files, has_commit=bool(snapshot.get("head"))
                )
            self._show()

    def _use(self, files: Iterable[FileDiff], *, has_commit: bool) -> None:
        self._changed = {file.path: file for file in files}
        if has_commit:
            added, removed = (sum(file.count(sign) for file in self._changed.values()) for sign in "+-")
            self._state = self._state._replace(changed_files=len(self._changed), added=added, removed=removed)

    def _show_head(self) -> None:
        lines = view.code_lines(self._snapshot, self._state)
        self.query_one("#codehead", Static).update(Folded(lines, self.deck.palette))

    def _show(self) -> None:
        self._show_head()
        table = self.query_one(VirtualTable)
        table.use_columns(COLUMNS if self._tree.files else UNTITLED)
        table.show(tree_rows(self._tree, {path: _counts(file) for path, file in self._changed.items()}))
        self._arrange()
        self._preview(table.cursor_key)

    def on_virtual_table_moved(self, event: VirtualTable.Moved) -> None:
        event.stop()
        self._preview(event.key)

    @work(exclusive=True, group="preview")
    async def _preview(self, path: str) -> None:
        """Show the changes of a file beside the tree or, if it has none, its content."""
        pane = self.query_one(ScrolledLines)
        if self._snapshot is None or not pane.display:
            return
        file = self._changed.get(path)
        lines: list[Line] = []
        if file is not None:
            pane.show(lambda width: file_lines(file, width=width))
        elif path and not path.endswith("/"):
            try:
                text = view.file_text(await self.deck.core.file(self._snapshot, path))
            except UserError as error:
                text = error.message
            lines = [(Cell(shown(line)),) for line in text.splitlines()[:MAX_PREVIEW_LINES]]
            pane.show(lambda width: [(Cell(printable(path), "title"),), (), *lines])
        else:
            pane.show(lambda width: ())
        pane.scroll_to_line(0)

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


def _counts(file: FileDiff) -> tuple[int, int]:
    return file.count("+"), file.count("-")
