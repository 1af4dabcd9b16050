"""Entry point of `squeue` and the other commands in a shell.

It sends the command to the controller, as a process of a job does. The controller has already imported
everything that the command needs. This program is started often, so it imports next to nothing (`python -IS`,
the client code of jobs).

srun talks to its step directly, here too. Other commands run in this process in these cases:

- No controller is running. One of the user's own is started then, as for any subcommand of warpdeck.
- The command reads this machine's processes or writes a file.
- The command is a subcommand of warpdeck or the app.
"""

from __future__ import annotations

import os
import sys

from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.base.paths import declare_slurm_command, default_paths
from warpdeck.slurm.command_table import COMMANDS
from warpdeck_agent.client.access import (
    CommandRefused,
    ControllerLink,
    Unreachable,
    connect_path,
    handshake,
    send_hello,
    wait_for_link,
)
from warpdeck_agent.client.main import ended
from warpdeck_agent.client.standard import prepare_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable

LOCAL = ("listpids", "pidinfo", "write")
"""Subcommands of scontrol that concern this machine: its processes, and a file that is written."""


def main(
    name: str, words: list[str], *, home: str = "", afterwards: Callable[[], None] = lambda: None
) -> int:
    """Run the command and return its exit code, unless the process exits here.

    `home` is the warpdeck home that the calling script was written for. `afterwards` is called after a
    controller has run the command.
    """
    declare_slurm_command(home)
    prepare_standard_streams()
    if name == "srun":
        os._exit(ended(name, lambda: _srun(words)))
    if name == "scontrol" and words[:1] == ["show"] and len(words) > 1:
        # Handled here as on a node, because this machine knows which host names resolve and the controller
        # does not.
        from warpdeck_agent.wire import hostnames

        if hostnames.entity(words[1]):
            return ended(name, lambda: hostnames.show(words[1:], os.environ, sys.stdout, sys.stderr))
    if name in COMMANDS and not _is_local(name, words):
        link = _controller()
        if link is not None:
            from warpdeck_agent.client import command

            # Nothing is left to be done, and the interpreter's normal exit takes a millisecond.
            code = ended(
                name,
                lambda: command.run(
                    lambda: send_hello(link),
                    name,
                    words,
                    record=_record,
                    reconnect=lambda: wait_for_link(_again, name),
                ),
            )
            afterwards()
            os._exit(code)
    from .commands import main as run_here

    return run_here(name, words)


def from_shell(name: str, words: list[str], environ_fd: int, *, home: str = "") -> int:
    """Run a command for the shell script of sbatch (slurm/shims/sbatch_script). `environ_fd` holds the script's own environment."""
    import binascii  # Imported here, as in the functions below, because few commands need it.

    with open(environ_fd, "rb") as file:
        block = binascii.a2b_base64(file.read())
    if block:  # If it is empty, this machine has no base64 program, and the shell's environment is used.
        os.environ.clear()
        for entry in block.split(b"\0"):
            key, _, value = entry.partition(b"=")
            if key:
                os.environb.setdefault(key, value)
    return main(name, words, home=home, afterwards=_ensure_submitter)


def _ensure_submitter() -> None:
    """Start a submitter for the next sbatch.

    None is started in a job, because it would be killed at the job's end.
    """
    if "WARPDECK_TOKEN" in os.environ:
        return
    from warpdeck.base.submitter_address import ensure

    try:
        ensure(default_paths())
    except OSError:
        return  # Commands also work without a submitter.


def _srun(words: list[str]) -> int:
    """Run srun in this process. Raises CommandRefused or Unreachable."""
    from warpdeck.slurm.interactive.srun import main as run_step

    try:
        code = run_step("srun", words)
        sys.stdout.flush()
    except UserError as error:
        raise CommandRefused(
            error.message, error.hint, error.exit_code, is_complete=error.code == VERBATIM
        ) from error
    return code


def _record(job: int, folder: str) -> str:
    from warpdeck.client.snapshot_requests import order

    return order(default_paths(), [job], folder)


def _controller() -> socket.socket | None:
    try:
        return connect_path(default_paths().socket)
    except OSError:
        return None


def _again() -> ControllerLink:
    """Connect to the controller again. Raises Unreachable or CommandRefused."""
    link = _controller()
    if link is None:
        raise Unreachable("the controller went away")
    return handshake(link)


def _is_local(name: str, words: list[str]) -> bool:
    """Check if the command must run in this process. Return true in case of doubt."""
    if name == "sstat":
        return any("pid" in word.lower() for word in words)
    if name != "scontrol":
        return False
    asked = [word.lower() for word in words if not word.startswith("-")]
    return not asked or any(each.startswith(word) for word in asked for each in LOCAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
