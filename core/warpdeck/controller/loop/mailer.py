"""Sends the mails that jobs ask for, through the site's sendmail or to its webhook, and never in a job's way.

Changes are taken from the hub; what is to be sent waits in a bounded queue for one sender. A mail that cannot be sent is logged and
gone. A controller that is killed in between may lose one, and sends none twice.
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
from collections.abc import Collection, Iterator, Mapping
from email.message import EmailMessage
from typing import TYPE_CHECKING

import msgspec

from warpdeck.controller.reducers.mail import ONCE, Mail, MailedEvents, mails, seen, told
from warpdeck.model import JobId, JobState
from warpdeck_agent.client.visible import visible_word

if TYPE_CHECKING:
    from warpdeck.config import Config

    from .controller import Controller

log = logging.getLogger("warpdeck.mail")

LOOK_S = 30.0
"""How often it is looked whether a share of a time limit is over."""
SEND_S = 30.0
"""How long the program or the webhook may take."""
MAX_WAITING = 1000
"""Mails that wait to be sent; more are dropped, and that is logged."""
MAX_OF_USER = 200
"""Mails of one user in an hour: an array of failing tasks is no reason to have the site's mail blocked."""
HOUR_S = 3600.0
MAX_RECIPIENTS = 10
MAX_SUBJECT_CHARS = 490
"""Twice that is what a line of a mail may have (RFC 5322)."""
UNFOLDED = email.policy.SMTP.clone(linesep="\n", max_line_length=MAX_SUBJECT_CHARS * 2)
"""A subject is one line: programs that sort mail look at the first."""
FRESH = MailedEvents(JobState.PENDING, 0)
"""How a job is that nobody has looked at."""
_ADDRESS = re.compile(r"[A-Za-z0-9._%+][A-Za-z0-9._%+\-]{0,127}(?:@[A-Za-z0-9][A-Za-z0-9.\-]{0,190})?")


class Others:
    """The tasks of an array but one, as they were last looked at: each is looked up when it is asked for."""

    def __init__(self, last: Mapping[JobId, MailedEvents], members: Collection[JobId], *, but: JobId) -> None:
        self._last = last
        self._members = members
        self._but = but

    def __iter__(self) -> Iterator[MailedEvents]:
        return (self._last.get(member, FRESH) for member in self._members if member != self._but)


class Mailer:
    """One for each controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._seen: dict[JobId, MailedEvents] = {}
        self._waiting: asyncio.Queue[Mail] = asyncio.Queue(MAX_WAITING)
        self._sent: dict[str, deque[float]] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        for job in self._controller.state.jobs.values():
            if job.request.mail_types:
                self._seen[job.id] = seen(job, ONCE)  # what was due before is not told again
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._send_for_ever())

    async def _watch(self) -> None:
        listener, loop = self._controller.hub.listen(), asyncio.get_running_loop()
        look_at = loop.time() + LOOK_S
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(look_at):
                        await listener.changed.wait()
                for job_id in listener.take()[0]:
                    self._look(job_id)
                if loop.time() >= look_at:
                    for job_id in list(self._seen):
                        self._look(job_id)
                    look_at = loop.time() + LOOK_S
        finally:
            self._controller.hub.leave(listener)

    def _look(self, job_id: JobId) -> None:
        """Queues what the job's change asks for."""
        state = self._controller.state
        job = state.jobs.get(job_id)
        if job is None:
            self._seen.pop(job_id, None)
        elif job.request.mail_types:
            before = self._seen.get(job_id, FRESH)
            why = state.planned.whys.get(job_id)
            now, code = self._controller.clock(), why.code if why is not None else ""
            others = Others(self._seen, state.member_ids(job.array_job_id), but=job_id)
            found = mails(before, job, others, now=now, why=code)
            self._seen[job_id] = seen(job, told(before, found))
            for mail in found:
                self._queue(mail)

    def _queue(self, mail: Mail) -> None:
        config, now = self._controller.config.mail, self._controller.clock()
        if not (config.program or config.webhook):
            return
        lately = self._sent.setdefault(mail.user, deque())
        while lately and lately[0] < now - HOUR_S:
            lately.popleft()
        if len(lately) >= MAX_OF_USER or self._waiting.full():
            log.warning("mail dropped, too many: %s to %s", mail.event, mail.user)
            return
        lately.append(now)
        self._waiting.put_nowait(mail)

    async def _send_for_ever(self) -> None:
        while True:
            mail = await self._waiting.get()
            try:
                await asyncio.to_thread(send, mail, self._controller.config)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                log.error("mail on job %d (%s) was not sent: %s", mail.job_id, mail.event, error)


def send(mail: Mail, config: Config) -> None:
    """Sends one mail. Raises OSError, ValueError, SubprocessError."""
    if config.mail.webhook:
        body = msgspec.json.encode(mail)
        request = urllib.request.Request(
            config.mail.webhook, data=body, headers={"Content-Type": "application/json"}
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
            words = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise ValueError(f"{config.mail.program} ended with {done.returncode}: {words}")


def addresses(text: str) -> list[str]:
    """The recipients in --mail-user. Raises ValueError for what is no address, which a program might take for an option."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    wrong = next((word for word in found if not _ADDRESS.fullmatch(word)), None)
    if wrong is not None or not found or len(found) > MAX_RECIPIENTS:
        raise ValueError(f"{(wrong or text)[:100]!r} is no mail address")
    return found


def message(mail: Mail, recipients: list[str]) -> bytes:
    """The mail as sendmail takes it. Names are the user's: a line end in one would make headers of its own."""
    made = EmailMessage()
    made["To"] = ", ".join(recipients)
    subject = visible_word(mail.subject)
    made["Subject"] = subject[:MAX_SUBJECT_CHARS]
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(f"{subject}\n\nnodes: {' '.join(mail.nodes) or 'none'}\n")
    return made.as_bytes(policy=UNFOLDED)
