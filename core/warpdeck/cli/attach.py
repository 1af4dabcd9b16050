"""warpdeck attach: back to a job's terminal. And `warpdeck run --pty`, which makes such a job first."""

from __future__ import annotations

import os
import sys
import time

from warpdeck.api.submission import draft_command, submit
from warpdeck.api.sync import SyncClient
from warpdeck.api.terminal import RelayEnd, relay, window_size
from warpdeck.errors import UserError
from warpdeck.paths import default_paths

from .folder import current_folder
from .output import note
from .run import HELP


def main(_: str, words: list[str]) -> int:
    """Joins the terminal."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0 if words else 2
    watch = words[0] == "--watch"
    jobs = words[watch:]
    if len(jobs) != 1 or jobs[0].startswith("-"):
        raise UserError(
            "attach takes one job",
            "write: warpdeck attach 12, or warpdeck attach --watch 12",
            exit_code=2,
        )
    with SyncClient.connect(default_paths()) as client:
        return _attach(client, jobs[0], watch=watch)


def run_on_terminal(options: list[str], command: list[str]) -> int:
    """Submits the command with a terminal of this one's size, and joins it."""
    paths = default_paths()
    size = window_size(sys.stdout.fileno())
    draft = draft_command(
        command, options, cwd=current_folder(), environ=os.environ, now=time.time(), pty=size
    )
    with SyncClient.connect(paths) as client:
        done = submit(client, draft, paths=paths, snapshot="none")
        for line in done.notes:
            note(f"warpdeck: {line}")
        return _attach(client, str(done.job_id))


def _attach(client: SyncClient, job: str, *, watch: bool = False) -> int:
    try:
        ended = relay(
            client,
            job,
            stdin_fd=sys.stdin.fileno(),
            stdout_fd=sys.stdout.fileno(),
            watch=watch,
            again=lambda: SyncClient.connect(default_paths(), start=False),
            progress=note,
        )
    except KeyboardInterrupt:
        if watch:
            return 130
        client.call("cancel", jobs=[job])
        return 130
    return _say(ended, job, watch=watch)


def _say(ended: RelayEnd, job: str, *, watch: bool) -> int:
    if ended.detached and watch:
        note("")
        return 0
    if ended.detached:
        note(f"\ndetached; job {job} goes on, come back with: warpdeck attach {job}")
        return 0
    if ended.error:
        raise UserError(ended.error, f"see `warpdeck show {job}`")
    return 128 + ended.signal if ended.signal else ended.code
