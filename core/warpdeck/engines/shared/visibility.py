"""The data of other users and of the site that a user may see: Slurm's PrivateData. Pure.

`[access] private_data` in config.toml lists the private subjects. Operators, administrators and root see everything. A
coordinator sees what belongs to the coordinated accounts. All rows for clients pass through this module:

- jobs: others' jobs do not exist for the user: in lists, in the history, on nodes, and if they are named.
- usage: shares and use of limits of others are left out.
- users: the associations of other users are left out.
- accounts: accounts that the user does not coordinate are left out.
- reservations: reservations that the user cannot use are left out.
- nodes, partitions, events: requests for them are refused.

The rows are those of Slurm 22.05; tests/slurm_parity/administration/test_private_data.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.config import Config
from warpdeck.config.table_types import Private
from warpdeck.controller.state.state import State
from warpdeck.model import Job, NodeName
from warpdeck.policy import ReservationView
from warpdeck.ports.caller import Principal, is_operator, may_control
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeEventRow, NodeRow
from warpdeck.protocol.site_rows import ForecastRow, PriorityRow, ShareRow, UseRow

PRIVATE = "private"
"""Code of the error for data that are private, and the label of a job that the user may not see."""
N = TypeVar("N", bound=NodeRow)
TITLES: dict[Private, str] = {
    "nodes": "the nodes",
    "partitions": "the partitions",
    "events": "the events of nodes",
}


class Visibility:
    """The rows that one user sees."""

    def __init__(self, who: Principal, config: Config) -> None:
        self._who = who
        self._accounts = {
            name for name, account in config.accounts.items() if who.user in account.users
        } | who.coordinates
        self._private: Collection[str] = () if is_operator(who) else config.access.private_data

    @property
    def hides_jobs(self) -> bool:
        """Whether some jobs may be hidden."""
        return "jobs" in self._private

    def sees(self, job: Job) -> bool:
        """Return whether the job exists for the user."""
        return not self.hides_jobs or may_control(self._who, job)

    def require(self, subject: Private) -> None:
        """Raise UserError if the subject is private."""
        if subject in self._private:
            raise UserError(
                f"{TITLES[subject]} are visible to operators only",
                "ask an administrator",
                code=PRIVATE,
                details={"subject": subject},
            )

    def allows(self, subject: Private) -> bool:
        """Return whether the subject is not private."""
        return subject not in self._private

    def past_user(self, asked: str | None) -> str | None:
        """Return the only user to search for finished jobs, or None to search for the jobs of all users."""
        return self._who.user if self.hides_jobs else asked

    # ---- Rows of jobs

    def job_rows(self, show: Callable[[Sequence[Job]], list[Any]]) -> Callable[[Sequence[Job]], list[Any]]:
        """Return a function that makes rows of the jobs that the user sees."""
        if not self.hides_jobs:
            return show
        return lambda jobs: [_without_names(row) for row in show([job for job in jobs if self.sees(job)])]

    def forecast(self, row: ForecastRow) -> ForecastRow:
        """Return a forecast without the names of other users and their jobs."""
        if not self.hides_jobs:
            return row
        leaders = [each for each in row.leaders if each.user == self._who.user]
        return msgspec.structs.replace(row, leaders=leaders, sentence="", details={})

    def priorities(self, rows: list[PriorityRow]) -> list[PriorityRow]:
        """Return the priorities of the jobs that the user sees."""
        if not self.hides_jobs:
            return rows
        return [row for row in rows if row.user == self._who.user or row.account in self._who.coordinates]

    # ---- Rows of nodes

    def node(self, row: N, state: State) -> N:
        """Return the row of a node without the jobs that the user does not see."""
        if not self.hides_jobs:
            return row
        seen = {job.label() for job in state.jobs_on(NodeName(row.name)) if self.sees(job)}
        return self._masked(row, seen)

    def past_node(self, row: N) -> N:
        """Return the row of a node at a past time without the jobs of other users."""
        if not self.hides_jobs:
            return row
        seen = {gpu.job for gpu in row.gpus if gpu.job_user == self._who.user}
        return self._masked(row, seen)

    def _masked(self, row: N, seen: Collection[str]) -> N:
        replace = msgspec.structs.replace
        gpus = [
            replace(
                gpu,
                job=gpu.job if gpu.job in seen or not gpu.job else PRIVATE,
                job_user=gpu.job_user if gpu.job in seen else "",
                sharers=[each for each in gpu.sharers if each.job in seen],
                processes=[each for each in gpu.processes if each.user == self._who.user],
                blocked=PRIVATE if gpu.blocked else "",
            )
            for gpu in row.gpus
        ]
        owner = row.owner if row.owner == self._who.user else ""
        return replace(row, gpus=gpus, jobs=[each for each in row.jobs if each in seen], owner=owner)

    def events(self, events: Iterable[NodeEventRow]) -> list[NodeEventRow]:
        """Return the events of nodes without the starts of others' jobs."""
        return [each for each in events if not (self.hides_jobs and each.job and each.user != self._who.user)]

    # ---- Rows of accounts

    def shares(self, rows: Sequence[ShareRow]) -> list[ShareRow]:
        """Return the visible lines of the account tree. A line below a hidden account moves to the top."""
        seen = [self._share(row) for row in rows if self._sees_association(row.account, row.user)]
        if len(seen) == len(rows):
            return seen
        depths = {"": -1}
        placed = []
        for row in seen:  # Accounts come before the accounts and users below them.
            parent = row.account if row.user else row.parent
            depth = depths.get(parent, -1) + 1
            if not row.user:
                depths[row.account] = depth
            own = row.parent if row.user or row.parent in depths else ""
            placed.append(msgspec.structs.replace(row, parent=own, depth=depth))
        return placed

    def _share(self, row: ShareRow) -> ShareRow:
        """Return a line without the coordinators that are hidden from the user."""
        if "users" not in self._private or row.account in self._who.coordinates:
            return row
        seen = [each for each in row.coordinators if each == self._who.user]
        return msgspec.structs.replace(row, coordinators=seen)

    def uses(self, rows: Sequence[UseRow]) -> list[UseRow]:
        """Return the visible uses of limits. The use of a QoS as a whole names no user."""
        return [
            row
            for row in rows
            if not (row.account or row.user) or self._sees_association(row.account, row.user)
        ]

    def admin_levels(self, levels: dict[str, str]) -> dict[str, str]:
        """Return the admin levels of the users that the user sees."""
        if "users" not in self._private:
            return levels
        return {user: level for user, level in levels.items() if user == self._who.user}

    def _sees_association(self, account: str, user: str) -> bool:
        if account in self._who.coordinates or user == self._who.user:
            return True
        if user:
            return "users" not in self._private and "usage" not in self._private
        return "accounts" not in self._private and "usage" not in self._private

    # ---- Others

    def reservations(self, found: Collection[ReservationView]) -> list[ReservationView]:
        """Return the visible reservations: the user sees the ones that the user may use."""
        if "reservations" not in self._private:
            return list(found)
        return [
            each
            for each in found
            if any(each.admits(self._who.user, name) for name in self._accounts or ("",))
        ]

    def by_user(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values by user, without other users if jobs, usage or users are private."""
        if not {"jobs", "usage", "users"} & set(self._private):
            return values
        return {user: value for user, value in values.items() if user == self._who.user}


def _without_names(row: Any) -> Any:
    """Return a row of a job without the sentence of its pending reason, which may name other users and jobs."""
    if isinstance(row, JobRow):
        return row if row.why is None else msgspec.structs.replace(row, why=_bare(row.why))
    return row if row.get("why") is None else {**row, "why": _bare(row["why"])}


def _bare(why: Any) -> Any:
    return msgspec.structs.replace(why, sentence="")
