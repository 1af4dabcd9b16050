"""Writes the audit log for the connections of clients, and answers requests for it.

Each user's refused and failed requests are limited (MAX_REFUSALS). Further ones are counted, and the next entry of the user
tells their number.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import Caller, LocalClient, Principal, require_admin
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import AuditEntry, AuditOutcome

from .decision import Finding, cut_text, findings, is_of_site
from .log_file import AuditLog

log = logging.getLogger("warpdeck.api")

MAX_REFUSALS = 200
"""Number of refused requests of a user that are recorded at once."""
REFUSALS_A_SECOND = 1.0
"""Number of refused requests of a user that are recorded in a second after that."""
MAX_USERS = 10_000
"""Maximum number of users for whom refused requests are counted."""
CLOCK_STEP_S = 3600.0
"""Seconds by which the clock may have been set back between two entries. The search for the oldest entry goes on so long."""
UNKNOWN = "?"
"""Name of a request that could not be decoded."""


ENTRIES_AT_ONCE, PAUSE_S = 500, 0.002
"""A search pauses after so many entries, so that the controller's own thread is not slowed down by a long search."""


class Recorder:
    """The audit log of one server. `clock` returns Unix seconds."""

    def __init__(self, audit: AuditLog, clock: Callable[[], float]) -> None:
        self._log = audit
        self._clock = clock
        self._refusals: dict[int, tuple[float, float]] = {}
        """uid -> number of refused requests that may still be recorded, and the time of that number."""
        self._omitted: dict[int, int] = {}

    @property
    def problem(self) -> str:
        """Why entries are missing, or "" if the last entry was written."""
        audit = self._log
        return f"{audit.problem}; {audit.lost} entries of the audit log are lost" if audit.problem else ""

    def answered(self, caller: Caller, message: Any, answer: object) -> None:
        """Record a request before its answer is sent, if it changed something or was refused.

        `answer` is the result, the error, or None if the client left before the answer.
        """
        for finding in findings(message, answer):
            self._record(caller, finding)

    def refused_connection(self, caller: Caller, error: UserError) -> None:
        """Record a connection that was refused."""
        self._record(
            caller, Finding("connect", [], {}, AuditOutcome.REFUSED, cut_text(error.message), error.code)
        )

    def malformed(self, caller: Caller, reason: str) -> None:
        """Record a message that could not be decoded."""
        self._record(caller, Finding(UNKNOWN, [], {}, AuditOutcome.REFUSED, cut_text(reason), "malformed"))

    def reloaded_by_signal(self, who: Principal, answer: list[str] | UserError) -> None:
        """Record that the configuration was put into force after a SIGHUP."""
        outcome = results.Reloaded(changes=answer) if isinstance(answer, list) else answer
        caller = Caller(who)
        for finding in findings(ask.Reload(), outcome):
            self._record(caller, finding, origin="signal")

    def entries(self, caller: Caller, message: ask.Audit) -> results.AuditList:
        """Return the entries that a client asks for. It blocks. Raises UserError."""
        if not message.own:
            require_admin(caller.who)
        matches = _filter(message, caller.who)
        found: deque[AuditEntry] = deque(maxlen=message.limit)
        for count, entry in enumerate(self._log.newest(), 1):
            if not count % ENTRIES_AT_ONCE:
                time.sleep(PAUSE_S)
            if entry.at < message.since - CLOCK_STEP_S or entry.number <= message.after:
                break
            if matches(entry):
                found.appendleft(entry)
                if len(found) == message.limit and not message.after:
                    break
        return results.AuditList(entries=[*found], problem=self.problem)

    def close(self) -> None:
        self._log.close()

    def _record(self, caller: Caller, finding: Finding, *, origin: str = "") -> None:
        who, now = caller.who, self._clock()
        is_refusal = finding.outcome in (AuditOutcome.REFUSED, AuditOutcome.FAILED)
        if is_refusal and not self._may_record(who.uid, now):
            self._omitted[who.uid] = self._omitted.get(who.uid, 0) + 1
            return
        before = self._log.problem
        entry = AuditEntry(
            number=0,
            at=now,
            user=who.user,
            uid=who.uid,
            origin=origin or caller.origin,
            request=finding.request,
            objects=finding.objects,
            details=finding.details,
            outcome=finding.outcome,
            reason=finding.reason,
            code=finding.code,
            omitted=self._omitted.pop(who.uid, 0),
        )
        self._log.append(entry, of_site=is_of_site(finding, caller))
        if self._log.problem != before:
            log.error("audit log: %s", self._log.problem or "entries are written again")

    def _may_record(self, uid: int, now: float) -> bool:
        left, at = self._refusals.pop(uid, (float(MAX_REFUSALS), now))
        left = min(float(MAX_REFUSALS), left + max(0.0, now - at) * REFUSALS_A_SECOND)
        allowed = left >= 1.0
        self._refusals[uid] = (left - 1.0 if allowed else left), now
        while len(self._refusals) > MAX_USERS:
            self._omitted.pop(uid_gone := next(iter(self._refusals)), None)
            del self._refusals[uid_gone]
        return allowed


def _filter(message: ask.Audit, who: Principal) -> Callable[[AuditEntry], bool]:
    """Return the test whether an entry matches the request."""
    users, requests = frozenset(message.users), frozenset(message.requests)
    objects, outcomes = message.objects, frozenset(message.outcomes)

    def matches(entry: AuditEntry) -> bool:
        return (
            (not message.own or entry.uid == who.uid)
            and entry.at >= message.since
            and (message.until is None or entry.at <= message.until)
            and (not users or entry.user in users or str(entry.uid) in users)
            and (not requests or entry.request in requests)
            and (not outcomes or entry.outcome in outcomes)
            and (not objects or any(_is_at(name, entry) for name in objects))
        )

    return matches


def _is_at(name: str, entry: AuditEntry) -> bool:
    """Return whether an entry is about an object, or about one below it, such as a task of an array."""
    return any(each == name or each.startswith((f"{name}.", f"{name}_")) for each in entry.objects)


def local_client(pid: int) -> LocalClient:
    """Return a process of this machine with the name of its program. The name is "" if the process has ended.

    The kernel keeps this name itself. Reading the command line would read the memory of the process, which a hostile user can
    let wait for a file system that never answers.
    """
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read().decode(errors="replace")
    except OSError:
        name = ""
    return LocalClient(pid=pid, program="".join(filter(str.isprintable, name)))
