"""Where a shell's `squeue` begins. It asks the controller, as a process of a job does: what the command imports is there already,
and this program, which starts often, imports next to nothing (`python -IS`, the clients of jobs).

srun speaks with its step itself, here too. Any other command runs in this process where nobody can be asked (no controller runs:
one of the user's own is started as for any verb), where it looks at this machine's own processes or writes a file, and where it
is a verb of warpdeck or the app.
"""

from __future__ import annotations

import os
import sys

from warpdeck.base.errors import SAID, UserError
from warpdeck.base.paths import be_slurms_command, default_paths
from warpdeck.slurm.command_table import COMMANDS
from warpdeck_agent.client.access import Away, Link, Refused, connect_path, greeted, greeting, patiently
from warpdeck_agent.client.main import ended
from warpdeck_agent.client.standard import prepare_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable

LOCAL = ("listpids", "pidinfo", "write")
"""Words of scontrol that are about this machine: its processes, and a file that is written."""


def main(
    name: str, words: list[str], *, home: str = "", afterwards: Callable[[], None] = lambda: None
) -> int:
    """Runs the command; its exit code, unless the process ends here already. `home`: that for which the script was written which
    runs us. `afterwards` follows what a controller did for us."""
    be_slurms_command(home)
    prepare_standard_streams()
    if name == "srun":
        os._exit(ended(name, lambda: _srun(words)))
    if name == "scontrol" and words[:1] == ["show"] and len(words) > 1:
        # As on a node: which names resolve is known here, not to the controller.
        from warpdeck_agent.wire import hostnames

        if hostnames.entity(words[1]):
            return ended(name, lambda: hostnames.show(words[1:], os.environ, sys.stdout, sys.stderr))
    if name in COMMANDS and not _is_local(name, words):
        link = _controller()
        if link is not None:
            from warpdeck_agent.client import command  # srun takes the time of its import to have begun

            # Nothing is left to be done, and the interpreter takes a millisecond to come to that.
            code = ended(
                name,
                lambda: command.run(
                    lambda: greeting(link), name, words, record=_record, again=lambda: patiently(_again, name)
                ),
            )
            afterwards()
            os._exit(code)
    from .commands import main as run_here

    return run_here(name, words)


def from_shell(name: str, words: list[str], environ_fd: int, *, home: str = "") -> int:
    """The same for a script of the shell's (submitter/shell), which hands us the variables that it was started with."""
    import binascii  # as what functions below import: few commands need it

    with open(environ_fd, "rb") as file:
        block = binascii.a2b_base64(file.read())
    if block:  # else this machine has no base64, and the shell's own must do
        os.environ.clear()
        for entry in block.split(b"\0"):
            key, _, value = entry.partition(b"=")
            if key:
                os.environb.setdefault(key, value)
    return main(name, words, home=home, afterwards=_ensure_submitter)


def _ensure_submitter() -> None:
    """For the next time. Not in a job, whose end would be that of its processes too."""
    if "WARPDECK_TOKEN" in os.environ:
        return
    from warpdeck.base.submitter_address import ensure

    try:
        ensure(default_paths())
    except OSError:
        return  # it goes without


def _srun(words: list[str]) -> int:
    """Raises Refused, Away."""
    from warpdeck.slurm.interactive.srun import main as run_step

    try:
        code = run_step("srun", words)
        sys.stdout.flush()
    except UserError as error:
        raise Refused(error.message, error.hint, error.exit_code, said=error.code == SAID) from error
    return code


def _record(job: int, folder: str) -> str:
    from warpdeck.client.snapshot_requests import order

    return order(default_paths(), [job], folder)


def _controller() -> socket.socket | None:
    try:
        return connect_path(default_paths().socket)
    except OSError:
        return None


def _again() -> Link:
    """Raises Away, Refused."""
    link = _controller()
    if link is None:
        raise Away("the controller went away")
    return greeted(link)


def _is_local(name: str, words: list[str]) -> bool:
    """Whether it must be this process; in doubt it is."""
    if name == "sstat":
        return any("pid" in word.lower() for word in words)
    if name != "scontrol":
        return False
    asked = [word.lower() for word in words if not word.startswith("-")]
    return not asked or any(each.startswith(word) for word in asked for each in LOCAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
