"""`srun --pty` outside of any allocation: a job with a terminal that keeps running without a client.

The arguments are srun's, with its environment and grammar. A step is made instead if the request is
impossible for a job with a single process: several tasks, a container, or srun's prolog and epilog around a
task.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import Draft, has_several_tasks
from warpdeck.config import Config
from warpdeck.engines.native.jobs.submissions import NativeSubmissions
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import Request
from warpdeck.notation.request.request import build_request
from warpdeck.notation.step.srun import parse_srun
from warpdeck.notation.step.step_options import Srun
from warpdeck.ports.caller import ClientIdentity
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.results import OpenedJob

OF_STEPS = frozenset(
    {"container", "hosts", "immediate", "mpi", "programs", "relative", "task_epilog", "task_prolog"}
)
"""Fields of a step that a job with a single process cannot have."""


class Sessions:
    """Makes jobs with a terminal. `config` returns the configuration in force."""

    def __init__(
        self,
        *,
        apply: Apply,
        submissions: NativeSubmissions,
        config: Callable[[], Config],
        clock: Callable[[], float],
    ) -> None:
        self._apply = apply
        self._submissions = submissions
        self._config = config
        self._clock = clock

    async def open(self, client: ClientIdentity, message: ask.Session) -> OpenedJob:
        """Submit a job with a terminal. Raises UserError."""
        plugins = self._config().submission.plugin_options
        asked = parse_srun(list(message.words), message.env, files={}, plugins=plugins)
        if not _is_session(client, asked):
            raise UserError("the session is a step", "use srun", code=STEPS)
        options = [*asked.job_options, ("export", "NONE", "srun")]
        fields, notes = build_request(options, message.env, now=self._clock())
        if has_several_tasks(fields):
            raise UserError("several tasks are a step", "write: srun", code=STEPS)
        fields |= {
            "argv": asked.ask["argv"],
            "env": asked.ask["env"],
            "pty": {"rows": message.rows, "cols": message.cols},
            "requeue": False,
            "submit_line": shlex.join(["srun", *message.words]),
        }
        fields.setdefault("name", asked.ask["name"])
        draft = Draft(fields, notes, cwd=message.cwd, environ=message.env)
        try:
            request = msgspec.convert(draft.request, Request, strict=False)
        except msgspec.ValidationError as error:
            raise UserError(f"invalid session: {error}", "see `srun --help`") from error
        event = await self._submissions.event(client.who, [request], mark_of(message))
        made = (await self._apply(event)).made
        assert made is not None
        return OpenedJob(job_id=made.job_id, notes=[*notes, *made.notes])


def _is_session(client: ClientIdentity, asked: Srun) -> bool:
    if asked.told or asked.needs or asked.job or client.process is not None:
        return False
    return bool(asked.ask.get("pty")) and not asked.ask.keys() & OF_STEPS
