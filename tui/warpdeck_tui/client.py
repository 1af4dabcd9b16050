"""The one class of the app that talks to the core: a subscription in a thread, and calls in threads of their own."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from warpdeck.api.submission import Submitted, read_script, submit_command, submit_script
from warpdeck.api.sync import SyncClient
from warpdeck.errors import UserError
from warpdeck.paths import Paths

RECONNECT_S = 1.0


class Core:
    """Everything asked of the controller. `on_delta` and `on_link` are called from a thread."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._stopping = threading.Event()
        self._feed_client: SyncClient | None = None

    def watch(self, on_delta: Callable[[dict[str, Any]], None], on_link: Callable[[str], None]) -> None:
        """Passes on what changes until `close`; reconnects for ever and says how the link is ("" is well)."""
        while not self._stopping.is_set():
            try:
                client = self._feed_client = SyncClient.connect(self.paths)
                number = client.begin("subscribe")
                on_link("")
                while not self._stopping.is_set():
                    for word, message in client.events(number):
                        if word == "delta":
                            on_delta(message)
            except UserError as error:
                if not self._stopping.is_set():
                    on_link(error.message)
                self._stopping.wait(RECONNECT_S)

    def close(self) -> None:
        """Ends the subscription."""
        self._stopping.set()
        if self._feed_client is not None:
            self._feed_client.close()

    def call(self, kind: str, **fields: Any) -> dict[str, Any]:
        """One request. Raises UserError."""
        with contextlib.closing(SyncClient.connect(self.paths)) as client:
            return client.call(kind, **fields)

    def follow_log(
        self, job: str, *, channel: str, stop: threading.Event, on_data: Callable[[bytes], None]
    ) -> None:
        """A job's output from its last part on, as it grows. Raises UserError."""
        with contextlib.closing(SyncClient.connect(self.paths)) as client:
            number = client.begin("log", job=job, channel=channel, offset=-4_000_000, follow=True)
            while not stop.is_set():
                for word, value in client.events(number, timeout_s=0.2):
                    if word == "data":
                        on_data(value)
                    elif word == "end":
                        return

    def submit(self, script: str, options: Sequence[str], *, cwd: str) -> Submitted:
        """Submits a script file with further options, as the command line does. Raises UserError."""
        path = os.path.join(cwd, os.path.expanduser(script))
        text = read_script(path)
        with contextlib.closing(SyncClient.connect(self.paths)) as client:
            return submit_script(
                client,
                self.paths,
                text=text,
                name=path,
                options=options,
                cwd=os.path.dirname(path),
                environ=os.environ,
                now=time.time(),
            )

    def shell(self, *, gpus: int, rows: int, cols: int) -> str:
        """Submits an interactive shell; its job id. Raises UserError."""
        options = ["--gpus", str(gpus)] if gpus else []
        with contextlib.closing(SyncClient.connect(self.paths)) as client:
            done = submit_command(
                client,
                self.paths,
                argv=[os.environ.get("SHELL", "/bin/sh")],
                options=[*options, "--job-name", "interactive"],
                cwd=os.getcwd(),
                environ=os.environ,
                now=time.time(),
                pty=(rows, cols),
            )
        return str(done.job_id)

    def code_diff(self, snapshot: dict[str, Any]) -> str:
        """What has changed in the folder since the snapshot. Raises UserError."""
        from warpdeck.api.code import diff_with_now

        return diff_with_now(snapshot)
