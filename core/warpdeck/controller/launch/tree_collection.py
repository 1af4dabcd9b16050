"""Remove uploaded code snapshots that no unfinished job needs.

`superfluous` is the one decision. It names the trees of one user that may go: those that were not used for
`keep_trees_s`, and then the oldest until the quota holds. A tree of an unfinished job stays, and so does a tree that was
used in the last GRACE_S, because a client asks for it some time before it submits. A resubmission of an ended job whose
tree is gone is refused with `need_tree`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.config.tables import Quotas
from warpdeck.controller.state.state import State
from warpdeck.ports.caller import Principal
from warpdeck.protocol.site_rows import QuotaRow

from .code_trees import StoredTree, TreeFiles

log = logging.getLogger("warpdeck.trees")

GRACE_S = 3600.0
"""Seconds after its last use for which every tree is kept: longer than any client takes from its upload to its submission."""
COLLECT_EVERY_S = 3600.0
MIB = 2**20


def superfluous(
    stored: Sequence[StoredTree],
    quotas: Quotas,
    *,
    needed: Collection[str],
    now: float,
    new_bytes: Sequence[int] = (),
) -> list[StoredTree]:
    """Return the trees of one user to remove. `new_bytes` are the sizes of trees that must find room."""
    free = sorted(
        (each for each in stored if each.tree not in needed and now - each.used_unix > GRACE_S),
        key=lambda each: each.used_unix,
    )
    count = len(stored) + len(new_bytes)
    size = sum(each.size_bytes for each in stored) + sum(new_bytes)
    gone = []
    for each in free:
        too_old = now - each.used_unix > quotas.keep_trees_s
        if not too_old and not _is_over(quotas, count, size):
            break
        gone.append(each)
        count, size = count - 1, size - each.size_bytes
    return gone


def _is_over(quotas: Quotas, count: int, size: int) -> bool:
    return bool(quotas.max_trees and count > quotas.max_trees) or bool(
        quotas.max_trees_size and size > quotas.max_trees_size
    )


@dataclass(frozen=True, kw_only=True)
class TreeCollector:
    """Applies the quota of trees. `clock` returns Unix seconds."""

    state: State
    trees: TreeFiles
    clock: Callable[[], float]

    def make_room(self, uid: int, size_bytes: int) -> None:
        """Remove superfluous trees of a user before an upload. Raises UserError if the quota does not admit it."""
        quotas, stored = self.state.site.quotas, self.trees.stored(uid)
        new = [*self.trees.announced_sizes(uid), size_bytes]
        size, count = sum(each.size_bytes for each in stored) + sum(new), len(stored) + len(new)
        if not _is_over(quotas, count, size):
            return
        needed = self._needed().get(uid, set())
        gone = superfluous(stored, quotas, needed=needed, now=self.clock(), new_bytes=new)
        left = count - len(gone)
        left_bytes = size - sum(each.size_bytes for each in gone)
        if _is_over(quotas, left, left_bytes):
            raise UserError(
                f"with this one you would have {left:,} code snapshots of {left_bytes / MIB:,.1f} MiB; the limit is "
                f"{quotas.max_trees:,} of {quotas.max_trees_size / MIB:,.0f} MiB",
                "wait for jobs with other snapshots or cancel them, or add large files to .gitignore",
                code="QuotaTrees",
            )
        self._remove(uid, gone)

    def row(self, who: Principal) -> QuotaRow:
        """Return the user's jobs, requests and code snapshots, and their limits."""
        quotas = Quotas(max_jobs=0, max_request_size=0, max_trees=0, max_trees_size=0)
        if not who.admin:
            quotas = self.state.site.quotas
        use, stored = self.state.user_use, self.trees.stored(who.uid)
        return QuotaRow(
            jobs=use.jobs.get(who.uid, 0),
            max_jobs=quotas.max_jobs,
            request_bytes=use.request_bytes.get(who.uid, 0),
            max_request_bytes=quotas.max_request_size,
            trees=len(stored),
            max_trees=quotas.max_trees,
            tree_bytes=sum(each.size_bytes for each in stored),
            max_tree_bytes=quotas.max_trees_size,
        )

    async def run(self) -> None:
        """Remove superfluous trees of all users every hour, until cancelled."""
        self.trees.remove_partial()
        while True:
            await asyncio.sleep(COLLECT_EVERY_S)
            await self.collect()

    async def collect(self) -> None:
        """Remove superfluous trees of all users."""
        for uid in self.trees.users():
            stored = await asyncio.to_thread(self.trees.stored, uid)
            needed = self._needed().get(uid, set())
            # No await from here on, so that no submission can begin to need one of them.
            self._remove(uid, superfluous(stored, self.state.site.quotas, needed=needed, now=self.clock()))

    def _needed(self) -> dict[int, set[str]]:
        """Return the trees of unfinished jobs, by uid."""
        index, jobs = self.state.index, self.state.jobs
        found: dict[int, set[str]] = {}
        for job_id in (*index.pending, *index.active):
            snapshot = jobs[job_id].request.snapshot
            if snapshot is not None:
                found.setdefault(jobs[job_id].uid, set()).add(snapshot.tree)
        return found

    def _remove(self, uid: int, gone: Sequence[StoredTree]) -> None:
        for each in gone:
            self.trees.remove(uid, each.tree)
        if gone:
            log.info("removed %d code snapshots of uid %d", len(gone), uid)
