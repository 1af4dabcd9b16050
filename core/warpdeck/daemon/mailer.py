"""Send the mails that jobs request through the site's sendmail program or webhook, without delaying jobs.

The change listeners report changes. Mails wait in a bounded queue for one sender task. A mail that cannot be
sent is logged and dropped. A controller that is killed may lose a mail, but never sends one twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.policy
import logging
import re
import subprocess
import urllib.request
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from email.message import EmailMessage
from typing import TYPE_CHECKING

import msgspec

from warpdeck.model import JobId, JobState
from warpdeck_agent.client.visible import visible_word

from .mail import ONCE_ONLY, Mail, MailedEvents, mail_state, mails, reported_once

if TYPE_CHECKING:
    from warpdeck.config import Config
    from warpdeck.config.tables import Mail as MailSettings
    from warpdeck.controller.loop.change_listeners import ChangeListeners
    from warpdeck.controller.loop.site_rules import SiteRules
    from warpdeck.controller.state.state import State

log = logging.getLogger("warpdeck.mail")

CHECK_S = 30.0
"""Seconds between checks whether a job has reached a mail threshold of its time limit."""
SEND_S = 30.0
"""Maximum number of seconds for the mail program or the webhook."""
MAX_WAITING = 1000
"""Maximum number of mails that wait to be sent. Further mails are dropped, and each drop is logged."""
MAX_OF_USER = 200
"""Maximum number of mails per user and hour. Without a limit, an array of failing tasks could get the site's
mail blocked.
"""
HOUR_S = 3600.0
MAX_RECIPIENTS = 10
MAX_SUBJECT_CHARS = 490
"""Half of the longest line that a mail may have (RFC 5322)."""
UNFOLDED = email.policy.SMTP.clone(linesep="\n", max_line_length=MAX_SUBJECT_CHARS * 2)
"""Mail policy that keeps the subject on one line, because mail filters look only at the first line."""
INITIAL = MailedEvents(JobState.PENDING, 0)
"""State of a job before its first check."""
_ADDRESS = re.compile(r"[A-Za-z0-9._%+][A-Za-z0-9._%+\-]{0,127}(?:@[A-Za-z0-9][A-Za-z0-9.\-]{0,190})?")


class OtherTasks:
    """The tasks of an array except one, as they were at the last check.

    Each task is looked up only when it is iterated over.
    """

    def __init__(self, last: Mapping[JobId, MailedEvents], members: Collection[JobId], *, but: JobId) -> None:
        self._last = last
        self._members = members
        self._but = but

    def __iter__(self) -> Iterator[MailedEvents]:
        return (self._last.get(member, INITIAL) for member in self._members if member != self._but)


class Mailer:
    """Mail service of one controller. `clock` returns Unix seconds."""

    def __init__(
        self, state: State, *, hub: ChangeListeners, rules: SiteRules, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._hub = hub
        self._rules = rules
        self._clock = clock
        self._mail_states: dict[JobId, MailedEvents] = {}
        self._waiting: asyncio.Queue[Mail] = asyncio.Queue(MAX_WAITING)
        self._sent: dict[str, deque[float]] = {}

    async def run(self) -> None:
        """Send mails until cancelled."""
        for job in self._state.jobs.values():
            if job.request.mail_types:
                self._mail_states[job.id] = mail_state(job, ONCE_ONLY)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._send_for_ever())

    async def _watch(self) -> None:
        listener, loop = self._hub.listen(), asyncio.get_running_loop()
        next_check = loop.time() + CHECK_S
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(next_check):
                        await listener.changed.wait()
                for job_id in listener.take()[0]:
                    self._check_job(job_id)
                if loop.time() >= next_check:
                    for job_id in list(self._mail_states):
                        self._check_job(job_id)
                    next_check = loop.time() + CHECK_S
        finally:
            self._hub.leave(listener)

    def _check_job(self, job_id: JobId) -> None:
        """Queue the mails that the change of this job requires."""
        job = self._state.jobs.get(job_id)
        if job is None:
            self._mail_states.pop(job_id, None)
        elif job.request.mail_types:
            before = self._mail_states.get(job_id, INITIAL)
            reason = self._state.planned.pending_reasons.get(job_id)
            now, code = self._clock(), reason.code if reason is not None else ""
            others = OtherTasks(self._mail_states, self._state.member_ids(job.array_job_id), but=job_id)
            found = mails(before, job, others, now=now, reason_code=code)
            self._mail_states[job_id] = mail_state(job, reported_once(before, found))
            for mail in found:
                self._queue(mail)

    def _queue(self, mail: Mail) -> None:
        config, now = self._rules.config.mail, self._clock()
        if not (config.program or config.webhook):
            return
        recently_sent = self._sent.setdefault(mail.user, deque())
        while recently_sent and recently_sent[0] < now - HOUR_S:
            recently_sent.popleft()
        if len(recently_sent) >= MAX_OF_USER or self._waiting.full():
            log.warning("mail dropped, too many: %s to %s", mail.event, mail.user)
            return
        recently_sent.append(now)
        self._waiting.put_nowait(mail)

    async def _send_for_ever(self) -> None:
        while True:
            mail = await self._waiting.get()
            try:
                await asyncio.to_thread(send, mail, self._rules.config)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                log.error("mail on job %d (%s) was not sent: %s", mail.job_id, mail.event, error)


def send(mail: Mail, config: Config) -> None:
    """Send one mail. Raises OSError, ValueError or SubprocessError."""
    if config.mail.webhook:
        address, document = posted(mail, config.mail)
        request = urllib.request.Request(
            address, data=msgspec.json.encode(document), headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SEND_S):
            pass
    if config.mail.program:
        recipients = addresses(mail.to)
        done = subprocess.run(
            [config.mail.program, "-i", "--", *recipients],
            input=message(mail, recipients),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SEND_S,
            check=False,
        )
        if done.returncode:
            error_text = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise ValueError(f"{config.mail.program} ended with {done.returncode}: {error_text}")


def posted(mail: Mail, settings: MailSettings) -> tuple[str, object]:
    """Return the address and the document of the request that tells a webhook about a mail.

    Users choose the names of jobs, so control characters are made visible, and Slack's marks lose their meaning.
    """
    subject, nodes = visible_word(mail.subject)[:MAX_SUBJECT_CHARS], ", ".join(mail.nodes)
    text = f"{subject}\nnodes: {nodes}" if nodes else subject
    if settings.webhook_format == "slack":
        # https://api.slack.com/reference/surfaces/formatting#escaping
        return settings.webhook, {
            "text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        }
    if settings.webhook_format == "ntfy":
        # https://docs.ntfy.sh/publish/#publish-as-json
        server, _, topic = settings.webhook.rstrip("/").rpartition("/")
        is_failure = mail.event in ("FAIL", "TIME_LIMIT", "INVALID_DEPEND")
        return server, {
            "topic": topic,
            "title": f"Job {mail.job_id} of {mail.user}",
            "message": text,
            "priority": 4 if is_failure else 3,
            "tags": ["warning" if is_failure else "computer"],
        }
    return settings.webhook, mail


def addresses(text: str) -> list[str]:
    """Return the recipients in `text`, the value of --mail-user.

    Raises ValueError if an entry is no mail address, because the mail program might read it as an option.
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    wrong = next((word for word in found if not _ADDRESS.fullmatch(word)), None)
    if wrong is not None or not found or len(found) > MAX_RECIPIENTS:
        raise ValueError(f"{(wrong or text)[:100]!r} is no mail address")
    return found


def message(mail: Mail, recipients: list[str]) -> bytes:
    """Return the mail in the form that sendmail reads.

    Users choose the names of jobs. A line break in a name would start a new header, so control characters are
    made visible.
    """
    made = EmailMessage()
    made["To"] = ", ".join(recipients)
    subject = visible_word(mail.subject)
    made["Subject"] = subject[:MAX_SUBJECT_CHARS]
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(f"{subject}\n\nnodes: {' '.join(mail.nodes) or 'none'}\n")
    return made.as_bytes(policy=UNFOLDED)
