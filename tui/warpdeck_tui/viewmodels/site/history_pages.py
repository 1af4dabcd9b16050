"""The history as a table with one row per ended job. Only the pages around the cursor are loaded.

Pages are requested relative to a neighboring page (see model.past.PastQuery) or to the nearer end, and a few
are kept. A row that is not loaded yet is shown as an ellipsis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell
from warpdeck_tui.viewmodels.jobs.job_columns import Row, job_row
from warpdeck_tui.viewmodels.jobs.text_widths import TextWidths

PAGE_JOBS = 200
"""Jobs per page. These are a few screens, which are transferred in some milliseconds."""
PAGES_KEPT = 12
"""Largest number of pages in memory, however long the user scrolls."""
COMING = (Cell("…", "muted"),)


class PastPages:
    """The pages of one query with `total` jobs."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.widths = TextWidths()
        self._pages: dict[int, list[JobRow]] = {}
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return self.total

    def has(self, page: int) -> bool:
        return page in self._pages

    def size_of(self, page: int) -> int:
        """Return the number of jobs on the page, whether it is loaded or not."""
        return max(0, min(PAGE_JOBS, self.total - page * PAGE_JOBS))

    def put(self, page: int, rows: Sequence[JobRow]) -> bool:
        """Store the jobs of a page, and drop the least recently used page.

        Return False if jobs were removed from the history meanwhile.
        """
        self._pages.pop(page, None)
        while len(self._pages) >= PAGES_KEPT:
            gone = next(iter(self._pages))
            for row in self._pages.pop(gone):
                self._places.pop(str(row.id), None)
        self._pages[page] = list(rows)
        self.widths.add_jobs(rows)
        self._places |= {str(row.id): page * PAGE_JOBS + at for at, row in enumerate(rows)}
        return len(rows) == self.size_of(page)

    def use(self, page: int) -> None:
        """Mark the page as recently used, so that it is kept longer."""
        self._pages[page] = self._pages.pop(page)

    def at(self, index: int) -> JobRow | None:
        """Return the job at this index, or None if it is not loaded."""
        rows = self._pages.get(index // PAGE_JOBS, ())
        return rows[index % PAGE_JOBS] if index % PAGE_JOBS < len(rows) else None

    def place(self, key: str) -> int | None:
        """Return the index of the job with this key, or None if it is unknown."""
        return int(key[1:]) if key.startswith("#") else self._places.get(key)

    def job(self, key: str) -> JobRow | None:
        """Return the job with this key if it is loaded, else None."""
        index = self._places.get(key)
        return None if index is None else self.at(index)

    def query(self, page: int, base: FinishedQuery) -> FinishedQuery:
        """Return the query that loads the page, relative to the nearest known job or end."""
        first, size = page * PAGE_JOBS, self.size_of(page)
        last = first + size
        ways = [(first, FinishedQuery(offset=first)), (self.total - last, _back(self.total - last))]
        for number, rows in self._pages.items():
            if not rows:
                continue
            begin = number * PAGE_JOBS
            end = begin + len(rows)
            if end <= first:
                ways.append((first - end, FinishedQuery(beside=rows[-1].id, offset=first - end)))
            elif begin >= last:
                ways.append((begin - last, _back(begin - last, beside=rows[0].id)))
        way = min(ways, key=lambda each: each[0])[1]
        return msgspec.structs.replace(
            base, beside=way.beside, offset=way.offset, backwards=way.backwards, limit=max(1, size)
        )


def _back(offset: int, beside: int | None = None) -> FinishedQuery:
    return FinishedQuery(beside=beside, offset=offset, backwards=True)


class PastRows:
    """The pages as rows of a table.

    `missing` is called with the number of each page that is displayed but not loaded.
    """

    def __init__(
        self, pages: PastPages, columns: Sequence[str], *, now: float, missing: Callable[[int], None]
    ) -> None:
        self._pages = pages
        self._columns = columns
        self._now = now
        self._missing = missing

    def __len__(self) -> int:
        return len(self._pages)

    def row(self, index: int) -> Row:
        row = self._pages.at(index)
        page = index // PAGE_JOBS
        if row is None:
            if not self._pages.has(page):
                self._missing(page)
            return COMING
        self._pages.use(page)
        return job_row(row, self._columns, now=self._now)

    def key(self, index: int) -> str:
        row = self._pages.at(index)
        return f"#{index}" if row is None else str(row.id)

    def find(self, key: str, *, near: int) -> int | None:
        place = self._pages.place(key)
        return place if place is not None and place < len(self) else None

    def among(self, keys: Collection[str]) -> list[str]:
        """Return the keys in the order of their rows.

        Marked jobs are included even if their page is no longer loaded.
        """
        return sorted(
            keys, key=lambda key: (self._pages.place(key) is None, self._pages.place(key) or 0, key)
        )
