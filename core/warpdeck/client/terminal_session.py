"""Terminals on the cluster. `warpdeck run --pty` and `srun --pty` submit a job with a terminal and join it as
`warpdeck attach` does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_note
from warpdeck.base.paths import default_paths
from warpdeck.notation.options.getopt import split_command
from warpdeck_agent.client.process import with_process

from .away import was_killed
from .blocking_client import STEPS, SyncClient
from .open_terminals import shown
from .submission import draft_command, submit
from .terminal import RelayEnd, relay, window_size

TERMINAL = "--pty"


def run_on_terminal(words: list[str]) -> int | None:
    """Submit the command of `warpdeck run` with a terminal of this one's size, and join it.

    Return None if --pty is an argument of the command itself.
    """
    first = words.index(TERMINAL)
    if "--" in words[:first] or split_command(words[:first])[1]:
        return None
    options, command = split_command(words[:first] + words[first + 1 :])
    if not command:
        raise UserError("no command given", "usage: warpdeck run --pty [OPTIONS] COMMAND...")
    paths = default_paths()
    size = window_size(sys.stdout.fileno())
    draft = draft_command(
        command, options, cwd=current_folder(), environ=os.environ, now=time.time(), pty=size
    )
    with SyncClient.connect(paths) as client:
        done = submit(client, draft, paths=paths, snapshot="none")
        return _join_new(client, done.job_id, done.notes)


def step_on_terminal(words: list[str]) -> int | None:
    """Submit srun's command as a job with a terminal of this one's size, and join it. Return None if the
    command must run as a step.
    """
    rows, cols = window_size(sys.stdout.fileno())
    with SyncClient.connect(default_paths()) as client:
        try:
            done = client.create(
                "session",
                words=words,
                env=with_process(os.environ),
                cwd=current_folder(),
                rows=rows,
                cols=cols,
            )
        except UserError as error:
            if error.code != STEPS:
                raise
            return None
        return _join_new(client, done["job_id"], done["notes"])


def _join_new(client: SyncClient, job_id: int, notes: list[str]) -> int:
    for line in notes:
        print_note(f"warpdeck: {line}")
    return join(client, str(job_id))


def join(client: SyncClient, job: str, *, watch: bool = False) -> int:
    """Join the job's terminal until it ends or the user detaches, and return the exit code. Ctrl-C while it
    waits cancels the job.
    """
    paths = default_paths()
    try:
        with contextlib.nullcontext() if watch else shown(paths, job):
            ended = relay(
                client,
                job,
                stdin_fd=sys.stdin.fileno(),
                stdout_fd=sys.stdout.fileno(),
                watch=watch,
                again=lambda: SyncClient.connect(default_paths(), start=was_killed(default_paths())),
                progress=print_note,
            )
    except KeyboardInterrupt:
        if watch:
            return 130
        with SyncClient.connect(paths) as fresh:
            fresh.call("cancel", jobs=[job])
        return 130
    return _report_end(ended, job, watch=watch)


def _report_end(ended: RelayEnd, job: str, *, watch: bool) -> int:
    if ended.detached and watch:
        print_note("")
        return 0
    if ended.detached:
        print_note("")
        print_note(f"detached; job {job} keeps running. Attach again with `warpdeck attach {job}`")
        return 0
    if ended.error:
        raise UserError(ended.error, f"see `warpdeck show {job}`")
    return 128 + ended.signal if ended.signal else ended.code
