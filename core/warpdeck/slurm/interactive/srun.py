"""warpdeck srun: runs a step inside an allocation.

Outside of an allocation, it creates a job for the step. The job ends with the step.
"""

from __future__ import annotations

import os

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.base.paths import Paths, default_paths
from warpdeck_agent.client.access import (
    CommandRefused,
    ControllerLink,
    Unreachable,
    connect_path,
    handshake,
    send_hello,
    wait_for_link,
)
from warpdeck_agent.client.process import with_process
from warpdeck_agent.client.step import StepClient

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing these takes longer than starting a step.
    import _socket as socket
    from collections.abc import Callable, Mapping


def main(_: str, words: list[str]) -> int:
    """Run the step and return its exit code."""
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
    """Run a step with srun's options for the command `name`, and return its exit code. Raises UserError."""
    paths = default_paths()
    # An error of the first connection is reported. Later connection errors are retried.
    links = [_link(paths, send_hello)]

    def connect() -> ControllerLink:
        if links:
            return links.pop()
        try:
            return _link(paths, handshake)
        except UserError as error:
            raise Unreachable(error.message) from error

    try:
        client = StepClient(lambda: wait_for_link(connect, name), name=name)
        return client.run(words, with_process(environ), current_folder())
    except CommandRefused as refused:
        code = VERBATIM if refused.is_complete else ""
        raise UserError(refused.message, refused.hint, exit_code=refused.exit_code, code=code) from refused


def _link(paths: Paths, greet: Callable[[socket.socket], ControllerLink]) -> ControllerLink:
    """Connect to the controller, which is started if necessary. Raises UserError or Unreachable."""
    try:
        return greet(connect_path(paths.socket))
    except OSError:
        # This import takes each step several milliseconds, so it is done only if needed.
        from warpdeck.client.blocking_client import SyncClient

        return ControllerLink(SyncClient.connect(paths).detach())
    except CommandRefused as refused:
        raise UserError(refused.message, refused.hint) from refused
