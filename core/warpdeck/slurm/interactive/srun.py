"""warpdeck srun: Slurm's srun. Inside an allocation a step of it; else a job is made for the step, and ends with it."""

from __future__ import annotations

import os

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import SAID, UserError
from warpdeck.base.paths import Paths, default_paths
from warpdeck_agent.client.access import Away, Link, Refused, connect_path, greeted, greeting, patiently
from warpdeck_agent.client.process import with_process
from warpdeck_agent.client.step import StepClient

TYPE_CHECKING = False
if TYPE_CHECKING:  # a step begins in less than it takes to import these
    import _socket as socket
    from collections.abc import Callable, Mapping


def main(_: str, words: list[str]) -> int:
    """Runs the step; its exit code."""
    if words[:1] in (["-h"], ["--help"], ["-V"], ["--version"]):
        from warpdeck.base.slurm_version import VERSION
        from warpdeck.notation.step.srun_help import HELP

        print(VERSION if words[0] in ("-V", "--version") else HELP, end="")
        return 0
    if "--pty" in words and "SLURM_JOB_ID" not in os.environ:
        from warpdeck.client.terminal_session import step_on_terminal

        ended = step_on_terminal(words)
        if ended is not None:
            return ended
    return step("srun", words, os.environ)


def step(name: str, words: list[str], environ: Mapping[str, str]) -> int:
    """A step of srun's words, for the command of that name; its exit code. Raises UserError."""
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
        client = StepClient(lambda: patiently(connect, name), name=name)
        return client.run(words, with_process(environ), current_folder())
    except Refused as refused:
        code = SAID if refused.said else ""
        raise UserError(refused.message, refused.hint, exit_code=refused.exit_code, code=code) from refused


def _link(paths: Paths, greet: Callable[[socket.socket], Link]) -> Link:
    """To the controller, which is started if need be. Raises UserError, Away."""
    try:
        return greet(connect_path(paths.socket))
    except OSError:
        from warpdeck.client.blocking_client import SyncClient  # costs every step milliseconds

        return Link(SyncClient.connect(paths).detach())
    except Refused as refused:
        raise UserError(refused.message, refused.hint) from refused
