"""Decides when which command may ask slurmctld again, so that the load stays below a fixed number of requests.

A command causes one or more requests (RPCs), as `sdiag` of the real daemons counts them. While nobody looks, all commands
together cause at most one request a minute; while somebody looks, at most six a minute, for all users of the gateway. A
site may set other numbers. When slurmctld answers slowly, the intervals grow with the time that it takes. When `sdiag`
shows load, the allowed number itself becomes smaller.

A sixth of the requests is kept back. It serves the details of single jobs, and users who look once.

Requests that carry out a user's action, for example those of `sbatch`, come in addition, and so does a look at the queue
after the action. A user who works with many jobs would otherwise see an older picture than one who does nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from warpdeck.engines.slurm.reading.load_table import Load
from warpdeck.engines.slurm.settings import SlurmSettings

from .questions import COMMANDS, Question

SLOW_SHARE = 0.02
"""Maximum share of the time for which slurmctld may be busy with our commands: an answer after 2 s is asked for again
after 100 s.
"""
MAX_INTERVAL_S = 600.0
ACTION_S = 5.0
"""Minimum seconds from the last look at the queue to a look that shows the result of a user's action."""
ACTION_SHARE = 0.05
"""Maximum share of the time for which slurmctld may be busy with such looks."""
MINUTE_S = 60.0
BUSY = Load(threads=64, agent_queue=1000, mean_cycle_s=2.0)
"""Figures of sdiag from which on we ask less often. slurmctld handles at most 256 requests at once, and answers none
during a part of each scheduling pass.
"""
MAX_LOAD_FACTOR = 10.0
LOAD_KEPT_S = 1800.0
"""Seconds after which a figure of sdiag counts no longer, because nobody has looked since."""
SLOW_S = 2.0
"""Duration of an answer from which on sdiag is asked before its next turn."""
LOAD_AGAIN_S = 120.0
"""Minimum seconds between two looks at sdiag while slurmctld is slow or busy."""


class Source(StrEnum):
    """A command that reads a part of Slurm's state."""

    JOBS = "jobs"
    NODES = "nodes"
    ALLOCATIONS = "allocations"
    """Which GPUs the jobs have. It is read while somebody looks and a job runs whose GPUs are unknown."""
    USAGE = "usage"
    """How busy the GPUs of a job of the user are. It is read while somebody looks, and where the site gathers it."""
    LOAD = "load"
    """How busy slurmctld is. It is read while somebody looks."""


QUESTIONS = {
    Source.JOBS: Question.QUEUE,
    Source.NODES: Question.NODES,
    Source.ALLOCATIONS: Question.ALLOCATIONS,
    Source.LOAD: Question.LOAD,
}
"""The sources that are a question about the whole cluster."""


class Plan(NamedTuple):
    """The requests that a command causes, and its share of all requests."""

    rpcs: int
    share: float


PLANS = {
    Source.JOBS: Plan(rpcs=COMMANDS[Question.QUEUE].rpcs, share=1 / 2),
    Source.NODES: Plan(rpcs=COMMANDS[Question.NODES].rpcs, share=1 / 6),
    Source.ALLOCATIONS: Plan(rpcs=COMMANDS[Question.ALLOCATIONS].rpcs, share=1 / 12),
    Source.USAGE: Plan(rpcs=2, share=1 / 16),
    Source.LOAD: Plan(rpcs=COMMANDS[Question.LOAD].rpcs, share=1 / 60),
}
"""sstat, the source of the usage, asks for the federation and for the steps of one job."""
ALWAYS = (Source.JOBS, Source.NODES)
"""The sources that are read even if nobody looks."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """When a command was last started, and how long its answer took. Times are seconds of a monotonic clock."""

    started: float
    took_s: float


class Allowance:
    """The requests of the last minute, and whether there may be more. Times are seconds of a monotonic clock."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._sent: deque[tuple[float, int, bool]] = deque()
        """Times, numbers of requests, and whether a user's action has caused them."""
        self._load: Load | None = None
        self._load_at = 0.0

    def same(self) -> Allowance:
        """Return an unused allowance with the same limits."""
        return Allowance(self._settings)

    def allowed(self, *, looking: bool, now: float) -> float:
        """Return the number of requests that are allowed in a minute."""
        settings = self._settings
        usual = settings.requests_per_minute if looking else settings.idle_requests_per_minute
        return usual / self.load_factor(now)

    def note_load(self, load: Load | None, now: float) -> None:
        """Note what sdiag tells; None if the site keeps it from its users."""
        self._load, self._load_at = load, now

    def load_factor(self, now: float) -> float:
        """Return the number by which the requests are divided because slurmctld is busy; 1 if it is not."""
        is_known = self._load is not None and now - self._load_at < LOAD_KEPT_S
        return load_factor(self._load) if is_known and self._load is not None else 1.0

    def count(self, rpcs: int, now: float) -> None:
        """Count requests that are sent now."""
        self._sent.append((now, rpcs, False))

    def count_action(self, rpcs: int, now: float) -> None:
        """Count requests that a user's action causes. They do not delay the usual looks."""
        self._sent.append((now, rpcs, True))

    def sent(self, now: float) -> int:
        """Return the number of requests of the last minute."""
        return sum(count for at, count, _ in self._sent if at > now - MINUTE_S)

    def wait_s(self, rpcs: int, *, looking: bool, now: float, is_usual: bool = False) -> float:
        """Return the seconds until this number of requests fits into the allowance; 0 means now.

        For a usual look, the requests of users' actions are left out.
        """
        while self._sent and self._sent[0][0] <= now - MINUTE_S:
            self._sent.popleft()
        sent = [(at, count) for at, count, of_action in self._sent if not (is_usual and of_action)]
        excess = sum(count for _, count in sent) + rpcs - max(self.allowed(looking=looking, now=now), rpcs)
        for at, count in sent:
            if excess <= 0:
                break
            excess -= count
            if excess <= 0:
                return at + MINUTE_S - now
        return 0.0


def load_factor(load: Load) -> float:
    """Return the number by which the requests are divided while slurmctld has this load."""
    ratios = (
        load.threads / BUSY.threads,
        load.agent_queue / BUSY.agent_queue,
        load.mean_cycle_s / BUSY.mean_cycle_s,
    )
    return min(MAX_LOAD_FACTOR, max(1.0, *ratios))


def is_load_wanted(took_s: float, last: Asked | None, *, factor: float, now: float) -> bool:
    """Return whether sdiag is to be asked before its next turn, after an answer that took so long."""
    if last is not None and now - last.started < LOAD_AGAIN_S:
        return False
    return took_s >= SLOW_S or factor > 1.0


def interval_s(source: Source, last: Asked | None, *, allowed: float) -> float:
    """Return the number of seconds from one start of the command to the next, with this many requests a minute."""
    plan = PLANS[source]
    usual = MINUTE_S * plan.rpcs / (allowed * plan.share)
    return max(min(MAX_INTERVAL_S, last.took_s / SLOW_SHARE) if last else 0.0, usual)


def due_in_s(source: Source, last: Asked | None, *, allowed: float, urgent: bool, now: float) -> float:
    """Return the number of seconds until the command is due; 0 means now. An urgent one is due at once.

    The interval counts from the last start of the command. So a user who opens and closes the app again and again does not
    cause more requests.
    """
    if last is None or urgent:
        return 0.0
    return max(0.0, last.started + interval_s(source, last, allowed=allowed) - now)


def due_after_action_s(last: Asked | None, *, now: float) -> float:
    """Return the number of seconds until the queue may be read to show the result of a user's action; 0 means now."""
    if last is None:
        return 0.0
    return max(0.0, last.started + max(ACTION_S, last.took_s / ACTION_SHARE) - now)


def rpcs_a_minute(asked: dict[Source, Asked], *, read: Iterable[Source], allowed: float) -> float:
    """Return the rate of requests at the present intervals, which the app shows. `read` has the sources that are read."""
    return sum(
        MINUTE_S * PLANS[each].rpcs / interval_s(each, asked.get(each), allowed=allowed) for each in read
    )
