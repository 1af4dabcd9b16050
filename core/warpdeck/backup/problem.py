"""Problems that a check of a database finds."""

from __future__ import annotations

import msgspec

SET_ASIDE = "the next read moves the row into the table set_aside"
SET_ASIDE_WITH_JOBS = f"{SET_ASIDE}, and the rows of its jobs too"
PLACEHOLDER = f"{SET_ASIDE} and adds a drained node of this name in its place"
NOTHING = "nothing changes it"
IGNORED = "the row is never used"
NEXT_FREE = "the next start takes the first id above all known ones"
REPORTED = "the running controller reports it in its log"
RECOVER = "nothing; restore a backup"
"""The treatment of an unreadable row by the controller. See `store.salvage`."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a database."""

    table: str
    """The table, or "" for the whole file."""
    key: str
    """The columns of the row's key, separated by spaces, or "" for the whole table."""
    problem: str
    """The problem in words."""
    salvage: str
    """The treatment of the row by the controller."""

    @property
    def sentence(self) -> str:
        """Return the place and the problem, such as "jobs 12: DecodeError: ..."."""
        place = " ".join(part for part in (self.table, self.key) if part) or "database"
        return f"{place}: {self.problem}"
