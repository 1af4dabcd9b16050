"""Priorities, shares, limits and QoS over Slurm.

A site without slurmdbd has no shares, limits and QoS. Its tables are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import name_of
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.model import Job, JobId, JobState
from warpdeck.ports.caller import Caller
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import PriorityRow

from .cluster.cluster import Cluster
from .cluster.kept_answers import KeptAnswers
from .reading import values
from .reading.assoc_mgr import read_holders, use_rows
from .reading.priority_tables import (
    SACCTMGR_QOS,
    SPRIO,
    SSHARE,
    read_priorities,
    read_qos,
    read_shares,
    read_weights,
)

PRIORITY_S = 120.0
SHARES_S = 600.0
LIMITS_S = 300.0
USER_LIMITS_S = 20.0
QOS_S = 3600.0
"""Seconds for which the answers are kept. The use of limits is read sooner after a job of the user has started or ended."""
ASSOC_MGR = ("scontrol", "show", "assoc_mgr", "flags=assoc,qos")


@dataclass(kw_only=True)
class SlurmAccounting:
    """The `EngineAccounting` of a gateway."""

    cluster: Cluster
    lookup: JobLookup
    kept: KeptAnswers
    _counted: tuple[frozenset[JobId], str] = field(default=(frozenset(), ""), init=False)
    """The running jobs of the user when the use of limits was read, and the answer."""

    async def priorities(self, caller: Caller, message: ask.Priorities) -> results.PriorityList:
        """Return the waiting jobs by priority. sprio adds the parts of the priorities; it leaves out held jobs."""
        state = self.cluster.state
        if message.ids:
            named = [await self.lookup.find(word) for word in message.ids]
            for job in named:
                _check_pending(state.jobs.get(job.id), job)
            jobs = [state.jobs[job.id] for job in named]
        else:
            jobs = [state.jobs[job_id] for job_id in state.index.pending]
        parts: Mapping[JobId, Mapping[str, float]] = {}
        if self.cluster.config.get("PriorityType", "").endswith("multifactor"):
            parts = read_priorities(await self.kept.read(*SPRIO, keep_s=PRIORITY_S, rpcs=2))
        rows = [self._row(job, parts.get(job.id, {})) for job in jobs]
        rows.sort(key=lambda row: (-row.priority, row.number, row.label))
        return results.PriorityList(
            jobs=rows, weights=read_weights(self.cluster.config), queue_order="submission"
        )

    async def shares(self, caller: Caller, message: ask.Shares) -> results.ShareTree:
        half_life = values.duration_s(self.cluster.config.get("PriorityDecayHalfLife", "")) or None
        if not self.cluster.has_accounting:
            return results.ShareTree(shares=[])
        text = await self.kept.read(*SSHARE, keep_s=SHARES_S)
        return results.ShareTree(shares=read_shares(text), half_life_s=half_life)

    async def limit_use(self, caller: Caller, message: ask.LimitUse) -> results.LimitUseList:
        if not self.cluster.has_accounting:
            return results.LimitUseList(uses=[])
        state = self.cluster.state
        running = frozenset(each for each in state.index.active if state.jobs[each].uid == self.cluster.uid)
        counted, before = self._counted
        keep_s = LIMITS_S if running == counted else USER_LIMITS_S
        text = await self.kept.read(*ASSOC_MGR, keep_s=keep_s)
        if text is not before:
            self._counted = running, text
        return results.LimitUseList(uses=use_rows(read_holders(text, name_of)))

    async def qos(self, caller: Caller, message: ask.QosList) -> results.QosLevels:
        if not self.cluster.has_accounting:
            return results.QosLevels(qos=[])
        # sacctmgr asks slurmdbd, not slurmctld.
        return results.QosLevels(qos=read_qos(await self.kept.read(*SACCTMGR_QOS, keep_s=QOS_S, rpcs=0)))

    def _row(self, job: Job, parts: Mapping[str, float]) -> PriorityRow:
        planned = self.cluster.state.planned
        reason = planned.pending_reasons.get(job.id)
        return PriorityRow(
            label=job.label(),
            number=job.array_job_id,
            eligible=not job.held and (reason is None or reason.code in ("None", "Priority", "Resources")),
            user=job.user,
            account=job.request.account,
            partition=job.request.partition,
            qos=job.request.qos,
            priority=planned.priorities.get(job.id, 0),
            age_part=parts.get("age_part", 0.0),
            fairshare_part=parts.get("fairshare_part", 0.0),
            job_size_part=parts.get("job_size_part", 0.0),
            partition_part=parts.get("partition_part", 0.0),
            qos_part=parts.get("qos_part", 0.0),
            tres_parts={
                name.removeprefix("tres:"): value for name, value in parts.items() if name.startswith("tres:")
            },
            nice=int(parts.get("nice", 0)),
        )


def _check_pending(now: Job | None, job: Job) -> None:
    """Raise UserError unless the job is pending."""
    found = now or job
    if found.state is not JobState.PENDING:
        raise UserError(
            f"job {found.label()} is not waiting: {found.state.value}", "only waiting jobs have a priority"
        )
