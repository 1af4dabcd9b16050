"""Ask the nodes about the launches that the database does not explain, and adopt or discard them.

`reducers.unknown_launches` has the decision about a launch, `reducers.recovering` the one about its job.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple

from warpdeck.base.errors import RemoteError
from warpdeck.controller.events.events import FoundLaunch, Recovered
from warpdeck.controller.launch.launch_records import is_proven, open_record
from warpdeck.controller.state.state import State
from warpdeck.model import JobId, NodeName
from warpdeck.model.recovery import UnknownLaunch
from warpdeck.ports.ports import Fleet
from warpdeck_agent.wire import messages as wire

from .site_claim import SiteClaim

log = logging.getLogger("warpdeck.controller")


class FoundLaunches(NamedTuple):
    """The unknown launches with the answers of their nodes, and the reasons of the nodes that did not answer."""

    launches: tuple[FoundLaunch, ...]
    silent: dict[NodeName, str]


class SiteRecovery:
    """The recovery of one controller."""

    def __init__(self, state: State, *, fleet: Fleet, claim: SiteClaim) -> None:
        self._state = state
        self._fleet = fleet
        self._claim = claim
        self._logged = False

    def log_need(self) -> None:
        """Log once that jobs do not start because a recovery is needed."""
        is_needed = self._state.recovery.is_needed
        if is_needed and not self._logged:
            log.error("%s", need_sentence(self._state))
        self._logged = is_needed

    async def find(self, job_ids: Collection[JobId]) -> FoundLaunches:
        """Return the unknown launches of these jobs, or of all jobs if none is named."""
        wanted = [each for each in self._state.recovery.launches if not job_ids or each.job_id in job_ids]
        found: list[FoundLaunch] = []
        silent: dict[NodeName, str] = {}
        for name in sorted({each.node for each in wanted}):
            launches = [each for each in wanted if each.node == name]
            try:
                found += await self._ask(name, launches)
            except RemoteError as error:
                silent[name] = error.cause
        return FoundLaunches(tuple(found), silent)

    async def recover(self, launches: tuple[FoundLaunch, ...], *, discard: bool) -> None:
        """Adopt or discard the launches. Then all nodes report again. Raises UserError or StoreError."""
        await self._claim.apply_unconnected(Recovered(launches=launches, discard=discard))

    async def _ask(self, name: NodeName, launches: list[UnknownLaunch]) -> list[FoundLaunch]:
        keys = [[each.job_id, each.restarts] for each in launches]
        answers = {
            (known.report.job_id, known.report.restarts): known
            for known in await self._fleet.known_launches(name, keys)
        }
        return [self._found(each, answers.get((each.job_id, each.restarts))) for each in launches]

    def _found(self, launch: UnknownLaunch, known: wire.KnownLaunch | None) -> FoundLaunch:
        seal, key = self._state.starts.seal, {"job_id": int(launch.job_id), "restarts": launch.restarts}
        if known is None or not is_proven(seal, known.report.proof, node=launch.node, **key):
            return FoundLaunch(launch=launch)
        job = open_record(known.record, seal, node=launch.node, **key)
        return FoundLaunch(launch=launch, report=known.report, last_step=known.last_step, job=job)


def need_sentence(state: State) -> str:
    """Return why no job starts until a person has run `warpdeck recover`; "" if a recovery is not needed."""
    count = len({each.job_id for each in state.recovery.launches})
    if not count:
        return ""
    jobs = "1 job" if count == 1 else f"{count} jobs"
    return (
        f"The database is older than {jobs} on the nodes, so this controller starts no jobs. Running jobs continue. List "
        "them with `warpdeck recover --dry-run`, then adopt them with `warpdeck recover`."
    )
