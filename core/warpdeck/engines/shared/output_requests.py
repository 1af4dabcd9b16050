"""Checks of the requests for logs, terminals and tunnels, and the messages that open them on a node."""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.base.errors import UserError
from warpdeck.model import Job
from warpdeck.protocol import requests as ask
from warpdeck_agent.wire import messages as wire


def one_task(job: Job) -> Job:
    """Return the job, unless it stands for several tasks of an array. Raises UserError."""
    if job.is_folded_array:
        first = f"{job.array_job_id}_{job.pending_tasks[0][0]}"
        raise UserError(f"job {job.label()} is an array", f"name a task: {first}")
    return job


def no_log(job: Job) -> UserError:
    """Return the error for the log of a job that has no nodes, because it waits or never started."""
    if job.is_finished:
        return UserError(
            f"job {job.label()} has no log: it never started ({job.state})",
            f"see the reason with `warpdeck show {job.label()}`",
        )
    return UserError(
        f"job {job.label()} has not started ({job.state}): it has no log yet",
        f"to wait for it, run `warpdeck logs -f {job.label()}`",
    )


def never_started(job: Job) -> UserError:
    """Return the error for a job that ended before it got nodes."""
    return UserError(f"job {job.label()} ended before it started ({job.state})", "see `warpdeck show`")


def not_on(job: Job, node: str) -> UserError:
    """Return the error for a job that has no part on the requested node."""
    return UserError(f"job {job.label()} does not run on {node}", "see `warpdeck show`")


def ended(job: Job, *, code: str = "") -> UserError:
    """Return the error for a job that is no longer there."""
    return UserError(
        f"job {job.label()} has ended ({job.state})",
        f"see its output: warpdeck logs {job.label()}",
        code=code,
    )


def require_terminal(job: Job) -> None:
    """Raise UserError unless the job was submitted with a terminal."""
    if job.request.pty is None:
        raise UserError(f"job {job.label()} has no terminal", f"see its log: warpdeck logs -f {job.label()}")


def require_target(message: ask.Tunnel) -> None:
    """Raise UserError unless a tunnel leads to either a port or a command."""
    if (message.port is None) == (not message.argv):
        raise UserError("a tunnel needs either a port or a command", "give one of them")


def pty_message(job: Job, message: ask.Attach, *, watcher: str = "") -> wire.OpenPty:
    """Return the message that opens the terminal. `watcher` is the user, if another one than the owner watches it."""
    return wire.OpenPty(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        rows=message.rows,
        cols=message.cols,
        offset=message.offset,
        watch=message.watch,
        watcher=watcher,
    )


def tunnel_message(job: Job, message: ask.Tunnel, environment: Mapping[str, str]) -> wire.OpenTunnel:
    """Return the message that opens the tunnel. A command gets the environment."""
    return wire.OpenTunnel(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        port=message.port or 0,
        argv=list(message.argv),
        env=dict(environment) if message.argv else {},
    )
