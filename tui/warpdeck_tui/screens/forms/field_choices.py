"""Values for the fields of a form: paths from the user's folders, and names from the site's tables."""

from __future__ import annotations

import time
from collections.abc import Sequence

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests
from warpdeck_tui.data.user_folders import MAX_ENTRIES, in_own_thread, list_folder
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels import Cell
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.job_form.path_completion import folder_of, matching, split_path
from warpdeck_tui.viewmodels.site.choices import Choice, SiteFacts, choices, empty_words
from warpdeck_tui.widgets.cells import printable

PATHS = ("folder", "script")
"""The fields that hold a path."""
LISTED = {"partition": ("PARTITION", "FREE"), "account": ("ACCOUNT", "QUOTA"), "qos": ("QOS", "QUOTA")}
"""The fields whose values come from the site's tables, with the titles of the columns of their lists."""
FRESH_S = 10.0
"""Seconds until the site's tables are requested again."""
Rows = list[tuple[str, tuple[Cell, ...]]]


class FieldChoices:
    """Source of the values for the fields of one form."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._facts = SiteFacts()
        self._read_at: float | None = None

    async def paths(self, field: str, text: str, base: str) -> tuple[list[str], bool]:
        """Return the paths that continue `text`, and whether the folder has more entries than are read.

        `base` is the folder at which a relative path begins. Raises UserError if the file system does not respond.
        """
        folder = folder_of(text, base)
        listing = await in_own_thread(lambda: list_folder(folder))
        return matching(text, listing.entries, only_folders=field == "folder"), listing.is_cut

    async def names(self, field: str) -> list[Choice]:
        """Return the partitions, accounts or QoS that are open to the user, with the free resources of each."""
        now = time.monotonic()
        if self._read_at is None or now - self._read_at > FRESH_S:
            self._facts = await self._read()
            self._read_at = now
        return choices(field, self._facts, user=self._deck.board.user)

    def empty(self, field: str) -> str:
        """Return the message of an empty list."""
        tags = {"partition": "partitions", "account": "shares", "qos": "qos"}
        return empty_words(field, self._deck.board.scheduler.reason(tags[field]))

    async def _read(self) -> SiteFacts:
        """Return the site's tables that the scheduler can list."""
        ask, reason = self._deck.core.ask, self._deck.board.scheduler.reason
        facts = SiteFacts()
        try:
            if not reason("partitions"):
                facts = facts._replace(partitions=(await ask(requests.Partitions())).partitions)
            if not reason("qos"):
                facts = facts._replace(qos=(await ask(requests.QosList())).qos)
            if not reason("shares"):
                facts = facts._replace(shares=(await ask(requests.Shares())).shares)
            if not reason("limit_use"):
                facts = facts._replace(uses=(await ask(requests.LimitUse())).uses)
        except UserError:  # there is no connection, or the user may not see a table; the list shows the rest
            pass
        return facts


def rows_of(found: Sequence[Choice]) -> Rows:
    """Return the choices as rows of a list."""
    return [
        (each.value, (Cell(printable(each.value), "accent"), Cell(each.words, each.style))) for each in found
    ]


def path_rows(paths: Sequence[str]) -> Rows:
    """Return paths as rows of a list. Only the names are shown."""
    return [(path, (Cell(printable(path[len(split_path(path.rstrip("/"))[0]) :])),)) for path in paths]


def paths_title(count: int, *, is_cut: bool) -> str:
    """Return the column title of a list of paths. `is_cut` tells that only a part of the folder was read."""
    words = plural(count, "path").upper()
    return f"{words} OF THE FIRST {MAX_ENTRIES} ENTRIES" if is_cut else words
