"""Runs a command on the cluster and waits for it, for `warpdeck run`. See `terminal_session` for --pty.

The controller parses the arguments. This process is started often, so it only forwards the streams.
"""

from __future__ import annotations

import os
import sys
import time

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_note
from warpdeck.base.paths import default_paths
from warpdeck_agent.client.lines import write_all
from warpdeck_agent.client.process import with_process

from .blocking_client import GONE, SyncClient

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own, as in blocking_client
    from typing import Any

PATIENCE_S = 1.0
"""Progress is reported after this time."""


def run_command(words: list[str]) -> int:
    """Run the command and return its exit code. Raises UserError, with the code STEPS for a command of several tasks."""
    with _connect(words) as client:
        return _Command(client).run(words)


def _connect(words: list[str]) -> SyncClient:
    """Connect to the controller. It is not started for arguments without a command. Raises UserError."""
    paths = default_paths()
    try:
        return SyncClient.connect(paths, start=False)
    except UserError as error:
        if error.code != GONE:
            raise
    from warpdeck.notation.options.getopt import split_command

    if not split_command(words)[1]:
        raise UserError("no command given", "usage: warpdeck run [OPTIONS] COMMAND...")
    return SyncClient.connect(paths)


class _Command:
    """One run of a command. Ctrl-C cancels its job."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._job_id = 0
        self._begun = time.monotonic()

    def run(self, words: list[str]) -> int:
        """Print both output streams until the job has ended, and return the exit code. Raises UserError."""
        try:
            return self._follow(words)
        except KeyboardInterrupt:
            if self._job_id:
                self._client.call("cancel", jobs=[str(self._job_id)])
                print_note("")
                print_note(f"warpdeck: job {self._job_id} canceled")
            return 130

    def _follow(self, words: list[str]) -> int:
        (out, errors), made = self._client.again_until(lambda nonce: self._send(words, nonce), self._answer)
        self._job_id = made["job_id"]
        for line in made["notes"]:
            print_note(f"warpdeck: {line}")
        streams = {out: sys.stdout, errors: sys.stderr}
        ended: dict[str, int] = {}
        while streams:
            number, word, value = self._client.any_event(streams)
            if word == "data":
                write_all(streams[number].fileno(), value)
            elif word == "end":
                del streams[number]
                ended = value.get("exit") or ended
                if value["error"]:
                    print_note(f"warpdeck: {value['error']}")
            elif word == "progress":
                self._show_progress(value)
        if int(ended.get("signal", 0)):
            return 128 + int(ended["signal"])
        return int(ended.get("code", 1))

    def _send(self, words: list[str], nonce: str) -> tuple[int, int]:
        """Send the request and return the numbers of its two output streams."""
        errors = self._client.number()
        env = with_process(os.environ)
        out = self._client.begin(
            "run", words=words, env=env, cwd=current_folder(), errors=errors, nonce=nonce
        )
        return out, errors

    def _answer(self, streams: tuple[int, int]) -> dict[str, Any]:
        """Return the created job and its notes. They come before any output."""
        while True:
            _, word, value = self._client.any_event(streams)
            if word == "ok":
                made: dict[str, Any] = value
                return made
            if word == "progress":
                self._show_progress(value)

    def _show_progress(self, line: str) -> None:
        if time.monotonic() - self._begun > PATIENCE_S:
            print_note(line)
