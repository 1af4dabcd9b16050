"""A step's task on a terminal: handling of keys that no process reads yet."""

from __future__ import annotations

import subprocess
import sys
import threading

from tests.support.waiting import WAIT_S

from warpdeck_agent.client.keys import keys_frame, size_frame


def test_pasted_text_is_echoed_completely() -> None:
    """The text is longer than a terminal's buffer. `cat` continues to read only while its output is read."""
    pasted = b"".join(b"%06d pasted\n" % number for number in range(40_000))
    frames = [keys_frame(pasted[start : start + 60_000]) for start in range(0, len(pasted), 60_000)]
    command = ["sh", "-c", f"stty raw -echo; echo ready; exec head -c {len(pasted)}"]
    task = subprocess.Popen(
        [sys.executable, "-m", "warpdeck_agent", "ptytask", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    watchdog = threading.Timer(WAIT_S, task.kill)
    watchdog.start()
    try:
        assert task.stdin is not None and task.stdout is not None
        task.stdin.write(size_frame())
        task.stdin.flush()
        assert task.stdout.readline() == b"ready\n"
        output, _ = task.communicate(b"".join(frames))
    finally:
        watchdog.cancel()
    assert (task.returncode, output) == (0, pasted)
