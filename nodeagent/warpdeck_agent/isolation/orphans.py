"""Ends processes that escaped from their jobs, on nodes without cgroups.

These processes have cleared their environment, or fork again and again.

The agent and the supervisor are subreapers: a process below them that loses its parent becomes their child
instead of init's. A child that has no job tag of our jobs and is not one of our helpers is a stray. The agent
does not know to which of its user's jobs a stray belongs, so a stray is ended with the last job of its user. A
process that is forked while others are being killed would survive, so every found process is stopped first,
until no new one appears. In a chain of processes, each starts the next one and exits. A chain is caught by its
process group, which the kernel signals as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from typing import Callable, Collection, Container, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from warpdeck_agent.linux.own_program import OWN, SUBREAPER
from warpdeck_agent.linux.procfs import content, number, table, text
from warpdeck_agent.linux.system_calls import adopt_orphans

from . import job_processes

CHECK_S = 1.0
YOUNG_S = 4.0
"""A child of the agent that is younger than this, in seconds, may be one of its own helpers that has not
begun yet.
"""
REAP_S = 2.0
"""Time in seconds after which a dead child is reaped. A process of ours is reaped at once by the code that
started it.
"""
SWEEP_S = 0.3
"""How long one sweep chases processes that fork faster than they are found, in seconds. The caller repeats
the sweep.
"""
QUIET_SEARCHES = 2
"""Number of consecutive searches without a new process. The kernel's list of children may omit one while
others exit.
"""
MANY = 64
"""If one sweep finds this many processes, they may be a fork bomb, and are forbidden to fork."""
TICKS_S = os.sysconf("SC_CLK_TCK")


class AgentChild(NamedTuple):
    """A child of the agent or of the supervisor."""

    pid: int
    parent: int
    uid: int
    ended: bool
    age_s: float


class Orphans:
    """The watcher of orphaned processes.

    `busy` returns the uids with a running launch, `job_tags` the job tags of all launches, `begins` whether any
    launch is just beginning, so that its job tag is missing there, and `helpers` the pids of our long-running helpers
    that run as a user. All are called from threads. `supervisor` returns the supervisor's pid.
    """

    def __init__(
        self,
        identity: str,
        busy: Callable[[], Collection[int]],
        *,
        job_tags: Callable[[], Container[job_processes.JobTag]],
        supervisor: Callable[[], int],
        begins: Callable[[], bool],
        helpers: Callable[[], Container[int]] = frozenset,
    ) -> None:
        self._busy = busy
        self._job_tags = job_tags
        self._supervisor = supervisor
        self._begins = begins
        self._helpers = helpers
        self._ended: Dict[int, float] = {}
        self._has_own_variable = bool(job_processes.variable(os.getpid(), OWN))
        os.environ[OWN] = os.environ[SUBREAPER] = identity
        adopt_orphans()

    async def run(self) -> None:
        """End strays and reap dead children, forever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_S)
            children = await loop.run_in_executor(None, _children, os.getpid())
            self._reap([child.pid for child in children if child.ended])
            await loop.run_in_executor(None, self._end_idle)

    def _end_idle(self) -> None:
        job_processes.send([each.pid for each in self._strays()], signal.SIGKILL)

    def _reap(self, ended: List[int]) -> None:
        now = time.monotonic()
        self._ended = {pid: self._ended.get(pid, now) for pid in ended}
        for pid, since in self._ended.items():
            if now - since > REAP_S:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def strays(self, uid: int) -> List[int]:
        """Return the strays of a user without a running launch. Blocks shortly."""
        if uid in self._busy():
            return []
        return [each.pid for each in self._strays() if each.uid == uid]

    def _strays(self) -> List[AgentChild]:
        found = []
        for parent in (os.getpid(), self._supervisor()):
            for child in _children(parent) if parent else ():
                environ = content(f"/proc/{child.pid}/environ", most_bytes=job_processes.MAX_ENVIRON_BYTES)
                if environ is not None and not child.ended and self._is_stray(child, environ):
                    found.append(child)
        return found

    def _is_stray(self, child: AgentChild, environ: bytes) -> bool:
        """Return whether a child belongs to no launch and was not started by the agent for itself.

        A process with an empty environment may be in the middle of an execve, as a launch's first process is.
        Whether any launch is beginning is checked last, so that a launch that began meanwhile is not taken
        for a stray.
        """
        if self._belongs_to_launch(child, environ):
            return False
        if job_processes.value_in(environ, OWN) and not self._only_claims_to_be_ours(child):
            return False
        if (
            child.parent == os.getpid()
            and child.age_s < YOUNG_S
            and not self._cannot_be_helper(child, environ)
        ):
            return False
        return bool(environ or not self._begins()) and child.uid not in self._busy()

    def _only_claims_to_be_ours(self, child: AgentChild) -> bool:
        """Return whether a process runs as a user with our variable but is not one of ours.

        Our processes that run as a user are young, or known as helpers.
        """
        if os.geteuid() != 0 or child.uid == 0 or child.age_s < YOUNG_S:
            return False
        return child.pid not in self._helpers()

    def _belongs_to_launch(self, child: AgentChild, environ: bytes) -> bool:
        """Return whether the child has the job tag of a launch, or any job tag while a launch is beginning."""
        if not job_processes.value_in(environ, job_processes.JOB_VARIABLE):
            return False
        return self._begins() or job_processes.job_tag_in(environ, child.pid) in self._job_tags()

    def _cannot_be_helper(self, child: AgentChild, environ: bytes) -> bool:
        """Return whether the child cannot be a process that the agent started for itself.

        If the agent itself has the variable OWN, its processes have it from the start.
        """
        if not self._has_own_variable or self._begins():
            return False
        return bool(environ) or _stays_empty(child.pid)

    def sweep(self, tag: job_processes.JobTag, known: Collection[int]) -> int:
        """Kill all processes of an ended launch and return their number.

        These are `known`, which have its job tag, and the user's strays, each with all its descendants. The
        caller checks again. Blocks for little more than SWEEP_S.
        """
        deadline = time.monotonic() + SWEEP_S
        found: Set[int] = set()
        dead: Set[int] = set()
        left: Collection[int] = known
        empty_searches = 0
        while empty_searches < QUIET_SEARCHES and time.monotonic() < deadline:
            children, is_complete = self._stop_children(tag, dead)
            new = _tree({*children, *left}) - found - {os.getpid(), self._supervisor()}
            job_processes.send(new, signal.SIGSTOP)
            found |= new
            if len(found) > MANY:
                _forbid_forks(found, tag.uid)
            found_nothing = is_complete and not new
            left = (
                set(job_processes.pids_by_job_tag().get(tag, ())) - found
                if found_nothing and not empty_searches
                else ()
            )
            empty_searches = empty_searches + 1 if found_nothing and not left else 0
        job_processes.send(sorted(found), signal.SIGKILL)
        return max(len(found), int(not empty_searches))

    def _stop_children(self, tag: job_processes.JobTag, dead: Set[int]) -> Tuple[Set[int], bool]:
        """Stop the children that belong to the launch, or are strays of its user, each as soon as it is seen.

        A process of a chain lives only a tenth of a millisecond. Returns the stopped pids, and False if a
        process that is not in `dead` had ended before its owner was clear.
        """
        found, ended, supervisor, uid = set(), set(), self._supervisor(), tag.uid
        for parent in (os.getpid(), supervisor):
            for pid in _pids_below(parent) if parent else ():
                environ = content(f"/proc/{pid}/environ", most_bytes=job_processes.MAX_ENVIRON_BYTES) or b""
                child = None
                has_tag = job_processes.has_job_tag(environ, pid, tag)
                if not has_tag:
                    child = _child(pid)
                    if child is None or (child.ended and child.uid == uid):
                        ended.add(pid)
                if has_tag or (child is not None and self._is_stray_of(child, environ, uid)):
                    _stop(pid, except_group=supervisor)
                    found.add(pid)
        is_complete = ended <= dead or uid in self._busy()
        dead |= ended
        return found, is_complete

    def _is_stray_of(self, child: AgentChild, environ: bytes, uid: int) -> bool:
        return child.uid == uid and not child.ended and self._is_stray(child, environ)


def _stop(pid: int, *, except_group: int) -> None:
    """Stop a process and kill its process group.

    This also ends a process that it has just forked as part of a chain.
    """
    fields = job_processes.stat_fields(pid)
    group = int(fields[2]) if len(fields) > 2 else 0
    job_processes.send([pid], signal.SIGSTOP)
    if group > 1 and group not in (os.getpgrp(), except_group):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _forbid_forks(pids: Iterable[int], uid: int) -> None:
    """Forbid forks with a resource limit. Root's processes are exempt from this limit."""
    for pid in pids if uid else ():
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (1, 1))


def _tree(roots: Collection[int]) -> Set[int]:
    found: Set[int] = set()
    left = list(roots)
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += _pids_below(pid)
    return found


def _stays_empty(pid: int) -> bool:
    """Return whether a process lives with an empty environment and is not in the middle of an execve."""
    for _ in range(job_processes.EXECVE_CHECKS):
        time.sleep(job_processes.EXECVE_CHECK_S)
        if content(f"/proc/{pid}/environ", most_bytes=1):
            return False
    return job_processes.stat_fields(pid)[:1] not in ([], ["Z"], ["X"])


def _pids_below(pid: int) -> List[int]:
    """Return the children of all its threads."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(word)
        for each in threads
        for word in (content(f"/proc/{pid}/task/{each}/children", most_bytes=1 << 20) or b"").split()
    ]


def _children(parent: int) -> List[AgentChild]:
    return [child for child in map(_child, _pids_below(parent)) if child is not None]


def _child(pid: int) -> Optional[AgentChild]:
    fields = job_processes.stat_fields(pid)
    if len(fields) <= 19:
        return None
    uptime_s = float((text("/proc/uptime").split() or ["0"])[0])
    return AgentChild(
        pid,
        parent=int(fields[1]),
        uid=number(table(f"/proc/{pid}/status").get("Uid", "")),
        ended=fields[0] == "Z",
        age_s=uptime_s - int(fields[19]) / TICKS_S,
    )
