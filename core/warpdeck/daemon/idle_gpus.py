"""Warn, pause or cancel jobs that hold GPUs and do not use them, as [idle_gpus] of the configuration says.

The agents report the jobs whose GPUs have been idle since some time. `decide` is the one decision. Warnings are kept in memory
only: after a restart of the controller, a job is warned again, and its time of grace begins anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.base.errors import InvalidTransition, StoreError, UserError
from warpdeck.controller.events.events import Cancelled, JournalNote, NotifyJob, Requeued
from warpdeck.controller.presenters.gpu_readings import gpus_idle_since
from warpdeck.model import Job, JobId
from warpdeck.notation.values.durations import time_text
from warpdeck.ports.caller import Principal

if TYPE_CHECKING:
    from warpdeck.config.tables import IdleGpus
    from warpdeck.controller.loop.event_queue import EventQueue
    from warpdeck.controller.loop.site_rules import SiteRules
    from warpdeck.controller.state.state import State

log = logging.getLogger("warpdeck.idle_gpus")

LOOK_S = 15.0
"""Seconds between two looks at the running jobs."""
ROOT = Principal(user="root", uid=0, admin=True)
Action = Literal["", "watch", "warn", "pause", "cancel"]


class Warned(NamedTuple):
    """A warning that was given to a job, and the time since which its GPUs were idle then."""

    at_unix: float
    since_unix: float


def decide(rule: IdleGpus, *, since_unix: float | None, warned: Warned | None, now: float) -> Action:
    """Return the action that is due now: a warning, the rule's own action after the warning, or "".

    `since_unix` is the time since which all GPUs of the job are idle, or None. A job that used a GPU after its warning is warned
    again first.
    """
    if rule.action == "none" or since_unix is None or now - since_unix < rule.after_s:
        return ""
    if warned is None or warned.since_unix != since_unix:
        return "watch" if rule.action == "watch" else "warn"
    if rule.action in ("pause", "cancel") and now - warned.at_unix >= rule.grace_s:
        return "pause" if rule.action == "pause" else "cancel"
    return ""


class IdleGpuWatch:
    """The watch of one controller. `clock` returns Unix seconds."""

    def __init__(
        self, state: State, queue: EventQueue, *, rules: SiteRules, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._queue = queue
        self._rules = rules
        self._clock = clock
        self._warned: dict[tuple[JobId, int], Warned] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Carry out the actions that are due. An error is logged, and the action is tried again at the next look."""
        table = self._rules.config.idle_gpus
        running = [self._state.jobs[job_id] for job_id in self._state.index.active]
        keys = {(job.id, job.restarts) for job in running}
        self._warned = {key: warned for key, warned in self._warned.items() if key in keys}
        for job in running:
            since, now, key = gpus_idle_since(self._state, job), self._clock(), (job.id, job.restarts)
            rule = table.rule(job.request.qos or NORMAL_QOS)
            action = decide(rule, since_unix=since, warned=self._warned.get(key), now=now)
            if action in ("pause", "cancel") and not can_act(rule, job):
                continue
            if not action or since is None:
                continue
            try:
                await self._act(job, action, rule, idle_s=now - since)
            except (UserError, InvalidTransition, StoreError) as error:
                log.warning("%s of job %s with idle GPUs failed: %s", action, job.label(), error)
                continue
            self._warned[key] = Warned(now, since)

    async def _act(self, job: Job, action: Action, rule: IdleGpus, *, idle_s: float) -> None:
        said = sentence(rule, job, action, idle_s=idle_s)
        log.info("job %s of %s: %s", job.label(), job.user, said)
        await self._queue.request(JournalNote(job_id=job.id, text=said))
        jobs = (str(job.id),)
        if action != "watch":
            await self._queue.request(NotifyJob(principal=ROOT, jobs=jobs, text=said))
        if action == "pause":
            await self._queue.request(Requeued(principal=ROOT, jobs=jobs, saves=True))
        elif action == "cancel":
            await self._queue.request(Cancelled(principal=ROOT, jobs=jobs))


def can_act(rule: IdleGpus, job: Job) -> bool:
    """Return whether the rule's action is possible. A job that cannot return to the queue is not paused."""
    return rule.action == "cancel" or (
        job.request.requeue and job.request.pty is None and not job.request.holder
    )


def sentence(rule: IdleGpus, job: Job, action: Action, *, idle_s: float) -> str:
    """Return the sentence for the history and the output of the job."""
    count = job.allocation.gpu_count() if job.allocation else 0
    gpus = f"all {count} GPUs have" if count != 1 else "the GPU has"
    fact = f"{gpus} been idle for {time_text(round(idle_s))}"
    if action == "watch":
        return f"{fact}; the site only watches this"
    if action == "warn" and rule.action != "warn" and can_act(rule, job):
        ends = "paused" if rule.action == "pause" else "canceled"
        return f"{fact}; the job is {ends} in {time_text(round(rule.grace_s))} unless it uses a GPU"
    if action == "warn":
        return f"{fact}; end the job if it does not need them"
    return f"{fact}; the job is {'paused' if action == 'pause' else 'canceled'}"
