"""warpdeck srun: Slurm's srun. Inside an allocation a step of it; else a job is made for the step, and ends with it."""

from __future__ import annotations

import os

from warpdeck.errors import UserError
from warpdeck.paths import Paths, default_paths
from warpdeck_agent.client.access import Away, Link, Refused, connect_path, greeted, greeting, patiently
from warpdeck_agent.client.step import StepClient
from warpdeck_agent.client.umask import with_umask

from .folder import current_folder

TYPE_CHECKING = False
if TYPE_CHECKING:  # a step begins in less than it takes to import these
    import _socket as socket
    from collections.abc import Callable


def main(_: str, words: list[str]) -> int:
    """Runs the step; its exit code."""
    if not words or words[0] in ("-h", "--help", "-V", "--version"):
        from warpdeck.notation.srunhelp import HELP
        from warpdeck.slurm.version import VERSION

        print(VERSION if words and words[0] in ("-V", "--version") else HELP, end="")
        return 0 if words else 2
    if _wants_terminal(words) and not _names_job(words) and "SLURM_JOB_ID" not in os.environ:
        from .run import main as run_terminal  # costs every step milliseconds, and few have a terminal

        return run_terminal("run", words)
    paths = default_paths()
    links = [_link(paths, greeting)]  # what is wrong now is said; what goes wrong later passes

    def connect() -> Link:
        if links:
            return links.pop()
        try:
            return _link(paths, greeted)
        except UserError as error:
            raise Away(error.message) from error

    try:
        client = StepClient(lambda: patiently(connect, "srun"))
        return client.run(words, with_umask(os.environ), current_folder())
    except Refused as refused:
        raise UserError(refused.message, refused.hint, exit_code=refused.exit_code) from refused


def _link(paths: Paths, greet: Callable[[socket.socket], Link]) -> Link:
    """To the controller, which is started if need be. Raises UserError, Away."""
    try:
        return greet(connect_path(paths.socket))
    except OSError:
        from warpdeck.api.sync import SyncClient  # costs every step milliseconds

        return Link(SyncClient.connect(paths).detach())
    except Refused as refused:
        raise UserError(refused.message, refused.hint) from refused


def _names_job(words: list[str]) -> bool:
    """Whether --jobid stands before the command or anywhere: the step is to be beside what runs there."""
    leading = words[: words.index("--")] if "--" in words else words
    return any(word == "--jobid" or word.startswith("--jobid=") for word in leading)


def _wants_terminal(words: list[str]) -> bool:
    """Whether --pty stands among the options: a job with a terminal is `warpdeck run`'s."""
    for word in words:
        if word in ("--pty", "--") or not (word.startswith("-") or word.isdecimal()):
            return word == "--pty"
    return False
