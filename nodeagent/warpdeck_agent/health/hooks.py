"""The site's prolog and epilog: programs that run before and after a launch, as the agent's own user.

They get the job's SLURM_* variables and none of the user's variables. Since they may run as root, only the
agent and the controller set their environment. If a hook fails or takes too long, the last line of its
standard error is the reason. See Slurm's Prolog and Epilog Guide; SLURM_SCRIPT_CONTEXT is prolog_slurmd or
epilog_slurmd as there.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from typing import Dict

from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH

from .site_program import end_group, end_tree, new_run_id

MAX_REASON_BYTES = 400
"""The most bytes of a failing hook's last line that are used in the node's drain reason."""
PROLOG, EPILOG = "prolog", "epilog"


class HookError(Exception):
    """A hook that failed, described in one sentence."""


def run_hook(kind: str, program: str, *, env: Dict[str, str], timeout_s: float) -> None:
    """Run the hook to its end. Raises HookError. Blocks."""
    _check(kind, program)
    given = {
        "PATH": SYSTEM_PATH,
        "HOME": "/",
        **env,
        OWN: new_run_id(),
        "SLURM_SCRIPT_CONTEXT": f"{kind}_slurmd",
    }
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=given,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise HookError(f"cannot run the {kind} {program}: {os.strerror(error.errno or 0)}") from error
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            end_tree(process, given[OWN])
            raise HookError(f"the {kind} {program} took longer than {timeout_s:g} s") from None
        finally:
            end_group(process)
        if status:
            raise HookError(f"the {kind} {program} failed ({_how(status)})" + _last_line(errors.fileno()))


def _check(kind: str, program: str) -> None:
    """Refuse a hook that other users may change, because it would run as the agent's user.

    Raises HookError.
    """
    try:
        status = os.stat(program)
    except OSError as error:
        raise HookError(f"cannot run the {kind} {program}: {os.strerror(error.errno or 0)}") from error
    foreign = status.st_uid not in (0, os.geteuid())
    if not program.startswith("/") or foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HookError(
            f"the {kind} {program} is not run, because other users may change it: use a file that only its owner can write"
        )


def _how(status: int) -> str:
    return f"exit {status}" if status > 0 else f"signal {-status}"


def _last_line(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, 4096, max(0, size - 4096)).decode("utf-8", "replace")
    line = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")
    return f": {line[:MAX_REASON_BYTES]}" if line else ""
