"""warpdeck salloc: holds an allocation while a command runs here.

The default command is a shell. srun in it starts tasks on the allocated nodes.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import print_note
from warpdeck.base.paths import Paths, default_paths
from warpdeck.base.slurm_version import VERSION
from warpdeck.client.away import was_killed
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.options.getopt import parse_leading
from warpdeck.notation.options.option_table import SALLOC
from warpdeck.notation.step import container_help
from warpdeck.slurm.shims.shim_scripts import install
from warpdeck_agent.client.process import with_process

HELP = f"""usage: warpdeck salloc [OPTIONS] [COMMAND...]

Waits for an allocation, then runs a shell or the command on this machine. `srun` starts tasks on the allocated nodes.
The allocation ends with the shell, and salloc returns the shell's exit code. All options of sbatch that describe
resources are accepted (-N -n -c --gpus --mem -t ...).

  --no-shell          only create the allocation; it lasts until it is cancelled or reaches its time limit
  -K, --kill-command[=SIGNAL]   end the command when the allocation ends early (default: leave it running)
  -I, --immediate[=SECONDS]     fail if the allocation does not start within this time
  -Q, --quiet         print errors only; --bell and --no-bell control the terminal bell
{container_help.HELP}
examples:
  warpdeck salloc -N 2 --gpus-per-node 4
  warpdeck salloc -n 4 srun hostname
"""
RETRY_S = 1.0
RELEASE_TRIES = 3
"""Maximum number of connections over which an allocation is released."""
BELL_S = 10.0
"""Waiting time in seconds after which the bell rings. It is the same as in Slurm."""


def main(_: str, words: list[str]) -> int:
    """Hold an allocation while the command runs, and return the command's exit code."""
    if (text := _help_text(words)) is not None:
        print(text, end="")
        return 0
    paths = default_paths()
    client = SyncClient.connect(paths)
    asked_at = time.monotonic()
    asked = {"words": words, "env": with_process(os.environ), "cwd": current_folder()}
    number, granted = client.again_until(
        lambda nonce: client.begin("salloc", nonce=nonce, **asked), lambda number: _wait(client, number)
    )
    job = int(granted["job_id"])
    say = _silent if granted["quiet"] else print_note
    say(f"salloc: Granted job allocation {job}")
    _ring(granted["bell"], time.monotonic() - asked_at)
    if not granted["has_shell"]:
        return 0
    say(f"salloc: Nodes {','.join(granted['nodes'])} are ready for job")
    command = granted["command"] or [os.environ.get("SHELL") or "/bin/sh"]
    env = {**os.environ, **granted["env"]}
    if granted.get("own_commands", True):
        env["PATH"] = f"{install(paths)}:{os.environ.get('PATH', '')}"
    try:
        if granted["chdir"]:
            os.chdir(granted["chdir"])
        child = subprocess.Popen(command, env=env)
    except OSError as error:
        client.tell("step_order", stream=number, what="end", code=127)
        _wait_for_end(client, number)
        if error.filename != command[0]:
            raise UserError(
                f"cannot run {command[0]}: {error.strerror}", f"check {error.filename}"
            ) from error
        print_note(f'salloc: error: _fork_command: Unable to find command "{command[0]}"')
        say(f"salloc: Relinquishing job allocation {job}")
        return 1

    def revoked(message: str) -> None:
        say(f"salloc: {message}")
        _signal(child, granted["kill_signal"])

    holder = _Holder(paths, client, number, job, revoked)
    code = _hold(holder, child)
    say(f"salloc: Relinquishing job allocation {job}")
    return code


def _silent(line: str) -> None:
    """Replacement for `print_note` with --quiet, which prints only errors."""


def _ring(bell: str, waited_s: float) -> None:
    """Ring the terminal's bell. After a long wait the user may be doing something else."""
    if bell != "never" and (bell == "always" or waited_s > BELL_S) and sys.stdout.isatty():
        # The bell is written to the descriptor, because sys.stdout replaces control characters.
        os.write(sys.stdout.fileno(), b"\a")


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    """Send the signal of --kill-command, if the command still runs."""
    if number and child.poll() is None:
        child.send_signal(number)


def _help_text(words: list[str]) -> str | None:
    """Return the text of --version or --help, which need no allocation.

    The controller parses all other options.
    """
    try:
        options = {name for name, _ in parse_leading(words, "salloc", SALLOC)[0]}
    except UserError:
        return None
    if "version" in options:
        return VERSION
    return HELP if options & {"help", "usage"} else None


def _wait(client: SyncClient, number: int) -> dict[str, Any]:
    while True:
        for word, value in client.events(number):
            if word == "ok":
                return dict(value)
            if word == "progress":
                print_note(f"salloc: {value}")


class _Holder:
    """The connection that holds the allocation. It is made again when the controller is available again."""

    def __init__(
        self, paths: Paths, client: SyncClient, number: int, job: int, revoked: Callable[[str], None]
    ) -> None:
        self._revoked = revoked
        self._paths = paths
        self._client: SyncClient | None = client
        self._number = number
        self._job = job
        self._next_try = 0.0

    def fileno(self) -> int:
        """Return the descriptor for select, or -1 if there is no connection."""
        return -1 if self._client is None else self._client.fileno()

    def listen(self) -> None:
        """Read the controller's messages and handle the end of the allocation or of the connection."""
        assert self._client is not None
        try:
            for word, value in self._client.events(self._number):
                if word == "end":
                    self._client = None
                    self._next_try = float("inf")
                    self._revoked(value["error"])
        except UserError:
            self._client = None

    def come_back(self) -> None:
        """Connect again if the connection was lost and the retry interval has passed."""
        if self._client is not None or time.monotonic() < self._next_try:
            return
        self._next_try = time.monotonic() + RETRY_S
        try:
            client = SyncClient.connect(self._paths, start=was_killed(self._paths))
            number = client.begin("salloc_attach", job=self._job)
            _wait(client, number)
        except UserError:
            return
        self._client, self._number = client, number

    def give_back(self, code: int) -> None:
        """Release the allocation after the command has ended. It is released again if the connection breaks meanwhile."""
        for _ in range(RELEASE_TRIES):
            self._next_try = self._next_try if self._has_ended else 0.0
            self.come_back()
            if self._client is None or self._was_released(self._client, code):
                return
            self._client = None

    @property
    def _has_ended(self) -> bool:
        """Whether the allocation has ended already."""
        return self._next_try == float("inf")

    def _was_released(self, client: SyncClient, code: int) -> bool:
        try:
            client.tell("step_order", stream=self._number, what="end", code=code)
        except UserError:
            return False
        return _wait_for_end(client, self._number)


def _hold(holder: _Holder, child: subprocess.Popen[bytes]) -> int:
    """Wait until the command has ended, then release the allocation.

    Returns the exit code. Ctrl-C is left to the command.
    """
    ended = os.pidfd_open(child.pid)
    try:
        while True:
            try:
                sources: list[Any] = [ended] + ([holder.fileno()] if holder.fileno() >= 0 else [])
                ready, _, _ = select.select(sources, [], [], RETRY_S)
            except KeyboardInterrupt:
                continue
            if ended in ready:
                break
            if ready:
                holder.listen()
            holder.come_back()
    finally:
        os.close(ended)
    code = child.wait()
    code = 128 - code if code < 0 else code
    holder.give_back(code)
    return code


def _wait_for_end(client: SyncClient, number: int) -> bool:
    """Wait for the end of the allocation. Returns False if the connection was lost before."""
    try:
        while True:
            for word, _ in client.events(number):
                if word == "end":
                    return True
    except UserError:
        return False
