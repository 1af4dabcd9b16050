"""Submits jobs from the app as the command line does.

Each call opens its own connection and must run in a thread. `client` imports this module at the first
submission, because the parsers of scripts are as large as all other code that the first frame needs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import (
    Draft,
    SubmissionResult,
    draft_command,
    draft_script,
    local_files,
    rerun,
    submit,
)


def draft_text(
    script: str,
    text: str,
    options: Sequence[str],
    cwd: str,
    *,
    args: Sequence[str] = (),
    environ: Mapping[str, str],
) -> Draft:
    """Parse the text of a script. `script` is its name, or "" if it has none. Raises UserError."""
    path = os.path.join(cwd, os.path.expanduser(script))
    return draft_script(
        text,
        path if script else "wrap",
        args=args,
        options=list(options),
        cwd=cwd,
        environ=environ,
        now=time.time(),
        read=local_files(cwd),
    )


def submit_draft(paths: Paths, draft: Draft, *, code_of: str = "") -> SubmissionResult:
    """Submit the draft. If `code_of` is given, the job runs the code of that job. Raises UserError."""
    with SyncClient.connect(paths) as client:
        return submit(client, draft, paths=paths, code_of=code_of)


def submit_again(paths: Paths, job: str) -> SubmissionResult:
    """Submit the job again as it was recorded. Raises UserError."""
    with SyncClient.connect(paths) as client:
        return rerun(client, job)


def submit_shell(paths: Paths, options: Sequence[str], *, rows: int, cols: int) -> SubmissionResult:
    """Submit an interactive shell with a terminal of this size. Raises UserError."""
    draft = draft_command(
        [os.environ.get("SHELL", "/bin/sh")],
        [*options, "--job-name", "interactive"],
        cwd=os.getcwd(),
        environ=os.environ,
        now=time.time(),
        pty=(rows, cols),
    )
    with SyncClient.connect(paths) as client:
        return submit(client, draft, paths=paths, snapshot="none")
