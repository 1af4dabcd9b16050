"""Entry point of the Slurm-compatible commands.

The scripts on the PATH run it as `python -m warpdeck.slurm.runtime.commands squeue --me`.
"""

from __future__ import annotations

import importlib
import os
import pwd
import socket
import sys

from warpdeck.base.errors import ANSWERED, VERBATIM, UserError
from warpdeck.base.paths import default_paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.snapshot_requests import order_or_tell
from warpdeck.protocol.refusals import load_failure
from warpdeck.slurm.command_table import APP, COMMANDS, FRONTED
from warpdeck.slurm.console.console import CommandError, Console, ControllerAccess, StandardStreams
from warpdeck.slurm.format.task_lists import task_list_length
from warpdeck.slurm.format.units import stamped
from warpdeck_agent.client.standard import prepare_standard_streams


def main(name: str, words: list[str]) -> int:
    """Run one command for the user of this process, and return its exit code."""
    prepare_standard_streams()
    try:
        if name == APP:
            # The app is imported by name, because the app depends on the core and the core must not depend on
            # the app.
            return int(importlib.import_module("warpdeck_tui.entry").main())
        if name in FRONTED:
            return int(importlib.import_module(f"warpdeck.slurm.interactive.{name}").main(name, words))
        code = run(name, words, own_console())
        sys.stdout.flush()  # Flush here, because a closed pipe is handled here.
        return code
    except UserError as error:
        return _fail(name, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130


def run(name: str, words: list[str], console: Console) -> int:
    """Run a command of COMMANDS and return its exit code. Its errors are printed to the console."""

    def complain(sentence: str) -> None:
        print(f"{name}: error: {sentence}", file=console.streams.err)

    try:
        module = importlib.import_module(f"warpdeck.slurm.{COMMANDS[name]}")
        with stamped(console.env, complain), task_list_length(console.env):
            return int(module.main(words, console))
    except CommandError as error:
        before = "" if error.bare else f"{name}: error: "
        for line in error.message.split("\n"):
            print(before + line, file=console.streams.out if error.is_answer else console.streams.err)
        return error.exit_code
    except UserError as error:
        if failure := load_failure(error, name):
            print(failure, file=console.streams.err)
            return 1
        print(f"{name}: error: {error.message}", file=console.streams.err)
        if error.hint:
            print(f"  {error.hint}", file=console.streams.err)
        return error.exit_code


def own_console() -> Console:
    """Return a console with the streams, environment and current directory of this process."""
    columns = os.get_terminal_size().columns or 80 if sys.stdout.isatty() else 0
    return Console(
        streams=StandardStreams(sys.stdin, sys.stdout, sys.stderr, columns=columns),
        controller=ControllerAccess(
            lambda: SyncClient.connect(default_paths()),
            reconnect=lambda: SyncClient.connect(default_paths(), start=False),
        ),
        env=os.environ,
        folder=_folder(),
        user=_user(),
        host=socket.gethostname(),
        read_file=_read,
        paths=default_paths(),
        record=lambda job, folder: order_or_tell(default_paths(), [job], folder),
    )


def _folder() -> str:
    """Return the current directory, with the name that the shell has in PWD if it is the same directory."""
    try:
        here = os.getcwd()
    except FileNotFoundError as error:
        raise UserError("the current folder does not exist any more", "change to one that does") from error
    named = os.environ.get("PWD", "")
    return named if os.path.isabs(named) and os.path.realpath(named) == here else here


def _user() -> str:
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _read(path: str, size: int) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(size)
    with open(path, "rb") as file:
        return file.read(size)


def _fail(name: str, error: UserError) -> int:
    before = "" if error.code in (VERBATIM, ANSWERED) else f"{name}: error: "
    print(before + error.message, file=sys.stdout if error.code == ANSWERED else sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
