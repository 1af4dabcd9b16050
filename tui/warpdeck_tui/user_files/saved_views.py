"""Saved views of the queue, and its columns: views.json in the configuration folder, written by the app.

{"columns": ["job", "state", "name", "where"],
 "views": {"failed": {"filter": "state:F", "everybody": true, "sort": "-time", "columns": []}}}
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from warpdeck.base.errors import UserError
from warpdeck_tui.viewmodels.jobs.job_columns import DEFAULT_COLUMNS, JOB_COLUMNS, PAST_COLUMNS
from warpdeck_tui.viewmodels.jobs.order import SORTED_BY, Order

MAX_VIEWS = 50
"""Largest number of views, because the user steps through them one by one."""
MAX_NAME_CHARACTERS = 40


class View(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A view of the queue: its filter, users, order and columns.

    `sort` is the key of a column, with a leading "-" for descending order. Empty `columns` mean the default
    ones.
    """

    filter: str = ""
    everybody: bool = False
    sort: str = ""
    columns: tuple[str, ...] = ()

    @property
    def order(self) -> Order:
        return Order(self.sort.removeprefix("-"), self.sort.startswith("-"))


class Views(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The saved views by name, the columns of the default view and of the history, and whether lists have a preview."""

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    past_columns: tuple[str, ...] = PAST_COLUMNS
    views: dict[str, View] = {}
    preview: bool = True

    def saved(self, name: str, view: View) -> Views:
        """Return a copy that contains this view, too. Raises UserError."""
        if len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
            raise UserError(
                f"A view name has at most {MAX_NAME_CHARACTERS} printable characters", "Choose another name"
            )
        if len(self.views) >= MAX_VIEWS and name not in self.views:
            raise UserError(f"The limit of {MAX_VIEWS} views is reached", "Remove some from views.json")
        return msgspec.structs.replace(self, views={**self.views, name: view})


def sort_text(order: Order) -> str:
    """Return the order in the notation of a view."""
    return f"-{order.column}" if order.descending else order.column


def parse_columns(text: str) -> tuple[str, ...]:
    """Parse a list of columns as the user writes it, such as "job state, name".

    Raises UserError that names an unknown column.
    """
    names = tuple(dict.fromkeys(text.lower().replace(",", " ").split()))
    strange = [name for name in names if name not in JOB_COLUMNS]
    if strange:
        raise UserError(f"No such column: {strange[0]}", f"Use one of {' '.join(JOB_COLUMNS)}")
    return names or DEFAULT_COLUMNS


def read_views(path: Path) -> Views:
    """Return the saved views, or the default columns and no views if there is no file.

    Raises UserError that names the file and the problem.
    """
    try:
        views = msgspec.json.decode(path.read_bytes(), type=Views)
    except FileNotFoundError:
        return Views()
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"Cannot use {path}: {error}", "Correct or remove it") from error
    for view in views.views.values():
        parse_columns(" ".join(view.columns))
        if view.order.column and view.order.column not in SORTED_BY:
            raise UserError(
                f"{path}: cannot sort by {view.order.column}", f"Use one of {' '.join(SORTED_BY)}"
            )
    past = parse_columns(" ".join(views.past_columns)) if views.past_columns else PAST_COLUMNS
    return msgspec.structs.replace(views, columns=parse_columns(" ".join(views.columns)), past_columns=past)


def write_views(path: Path, views: Views) -> None:
    """Write the file atomically. Raises UserError."""
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(views)) + b"\n")
        os.replace(fresh, path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error
