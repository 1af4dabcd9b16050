"""The site's own health check: a program whose exit status says whether the node is well, and its first line why not.

As Slurm's HealthCheckProgram it is run without arguments, as the agent's user. It gets a bounded time and a small
environment; what it writes beyond the first kilobytes is thrown away. A program that cannot be run at all says nothing
about the node: that is a warning, for else one wrong path would drain a cluster.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import Tuple

from .orphans import OWN
from .program import SYSTEM_PATH
from .wire.messages import Check

NAME = "program"
KEPT_BYTES = 4096
"""What is read of its output; the first line of it is the reason."""
LINE_CHARS = 300
SLICE_S = 0.2
"""How often it is looked whether it has ended, while something it left behind holds its output open."""


def run_program(path: str, *, timeout_s: float) -> Check:
    """Runs it to its end, which it has by then. Blocks."""
    try:
        process = subprocess.Popen(
            [path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", OWN: "1"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        words = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        return Check(NAME, "warn", f"{path} cannot be run: {words}")
    with process:
        ended, said = _follow(process, timeout_s)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Check(NAME, "fail", f"{path} was not done after {timeout_s:g} s")
    code = process.returncode
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")[:LINE_CHARS]
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    if code == 0:
        return Check(NAME, "ok", line or f"{path} found nothing")
    how = f"exit {code}" if code > 0 else f"signal {-code}"
    return Check(NAME, "fail", line or f"{path} failed ({how})")


def _follow(process: subprocess.Popen[bytes], timeout_s: float) -> Tuple[bool, str]:
    """(whether it ended in time, the begin of its output). What it left in the background is not waited for."""
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + timeout_s
    source, is_open = process.stdout.fileno(), True
    while process.poll() is None or is_open:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        if not is_open:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(left_s)
        elif select.select([source], [], [], min(SLICE_S, left_s))[0]:
            data = os.read(source, KEPT_BYTES)
            is_open = bool(data)
            said = (said + data)[:KEPT_BYTES]
        elif process.poll() is not None:
            break
    return process.poll() is not None, said.decode("utf-8", "replace")
