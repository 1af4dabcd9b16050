"""The terminal of an interactive job of Slurm. The batch script of the job runs this program.

  jobterminal ROWS COLS COMMAND...

The command runs on a terminal in the folder of this process. Viewers join it through a socket on the node (see
`terminal_folder`), so it survives the loss of every connection. At the end, the last output of the terminal is written to
standard output, which is the job's output file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import List

from warpdeck_agent.streams.pty_host import PtyHost, end_like

from . import terminal_folder


def main(argv: List[str]) -> int:
    """Run the command, and end in the same way."""
    rows, cols, *command = argv
    key = terminal_folder.key_of(os.environ)
    if not key:
        print("jobterminal runs inside a job of Slurm only", file=sys.stderr)
        return 2
    try:
        folder = terminal_folder.make(key)
    except OSError as error:
        print(f"cannot make a folder for the terminal on this node: {error}", file=sys.stderr)
        return 1
    try:
        return end_like(_run(folder, int(rows), int(cols), command))
    finally:
        terminal_folder.remove(folder)


def _run(folder: str, rows: int, cols: int, command: List[str]) -> int:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    host = PtyHost(folder, os.getcwd(), rows, cols, command)
    # Slurm sends TERM when the job is cancelled or its time is over, and KILL later.
    signal.signal(signal.SIGTERM, lambda *_: host.hang_up())
    status = host.run()
    with contextlib.suppress(OSError):  # A full disk must not cost the exit status.
        _write_all(host.last_output)
    return status


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
