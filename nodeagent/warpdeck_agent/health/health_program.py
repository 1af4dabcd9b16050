"""The site's own health check program.

Its exit status says whether the node is well, and the first line of its output gives the reason.

Like Slurm's HealthCheckProgram, it runs without arguments as the agent's user. It gets a limited time and a
small environment, and only the first kilobytes of its output are kept. A program that was
killed but does not die because a mount hangs is abandoned, and the program is not started again until it has
died. A program that cannot be run at all says nothing about the node. That is only a warning, because otherwise
one wrong path would drain a cluster.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from typing import Optional, Tuple

from warpdeck_agent.client.visible import visible_word
from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH
from warpdeck_agent.wire.messages import Check

from .site_program import end_tree, new_run_id

NAME = "program"
KEPT_BYTES = 4096
"""Size of the output that is kept; its first line is the reason."""
LINE_CHARS = 300
SLICE_S = 0.2
"""Interval in seconds between checks whether the program has ended. Needed if a process that the program left
in the background keeps the output open.
"""


class HealthProgram:
    """Runs the site's program, one run at a time."""

    def __init__(self) -> None:
        self._stuck: Optional[subprocess.Popen[bytes]] = None

    def run(self, path: str, *, timeout_s: float) -> Check:
        """Run the program at `path`, and kill it if it runs for longer than `timeout_s`. Blocks."""
        if self._stuck is not None and self._stuck.poll() is None:
            return Check(NAME, "fail", f"{path} was killed but has not exited (pid {self._stuck.pid})")
        run_id = new_run_id()
        try:
            process = subprocess.Popen(
                [path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", OWN: run_id},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            return Check(NAME, "warn", f"cannot run {path}: {reason}")
        assert process.stdout is not None
        with process.stdout:
            ended, output = _follow(process, timeout_s)
        if not ended:
            self._stuck = None if end_tree(process, run_id) else process
            return Check(NAME, "fail", f"{path} did not finish within {timeout_s:g} s")
        return _judge(path, process.returncode, output)


def _judge(path: str, code: int, output: str) -> Check:
    line = next((line.strip() for line in output.splitlines() if line.strip()), "")[:LINE_CHARS]
    line = visible_word(line)
    if code == 0:
        return Check(NAME, "ok", line or f"{path} reported no problem")
    how = f"exit {code}" if code > 0 else f"signal {-code}"
    return Check(NAME, "fail", line or f"{path} failed ({how})")


def _follow(process: subprocess.Popen[bytes], timeout_s: float) -> Tuple[bool, str]:
    """Return (whether the program ended in time, the start of its output).

    Processes that the program left in the background are not awaited.
    """
    assert process.stdout is not None
    output, deadline = b"", time.monotonic() + timeout_s
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
            output = (output + data)[:KEPT_BYTES]
        elif process.poll() is not None:
            break
    return process.poll() is not None, output.decode("utf-8", "replace")
