"""The main function of the programs in jobs: main(NAME, ARGUMENTS)."""

from __future__ import annotations

import os
import sys

from .access import CommandRefused, Unreachable, connect, wait_for_link
from .process import folder, with_process
from .standard import prepare_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes 3 ms.
    from typing import Callable, List, Mapping

OUTSIDE_EXIT = 1
LOST_EXIT = 1


def main(name: str, argv: List[str]) -> int:
    """Run the program of that name and return its exit code."""
    prepare_standard_streams()
    if name == "scontrol" and argv[:1] == ["show"] and len(argv) > 1:
        import warpdeck_agent.wire.hostnames as hostnames

        if hostnames.entity(argv[1]):
            return hostnames.show(argv[1:], os.environ, sys.stdout, sys.stderr)
    if "WARPDECK_TOKEN" not in os.environ:
        sys.stderr.write(
            f"{name}: error: this command works only in a warpdeck job: the job's variables are not set\n"
        )
        return OUTSIDE_EXIT
    return ended(name, lambda: _ask(name, argv))


def ended(name: str, command: Callable[[], int]) -> int:
    """Run a command and return its exit code, also if an error or an interrupt ends it early."""
    try:
        return command()
    except CommandRefused as refused:
        before = "" if refused.is_complete else f"{name}: error: "
        text = f"{before}{refused.message}\n" + (f"  {refused.hint}\n" if refused.hint else "")
        sys.stderr.write(text)
        return refused.exit_code
    except Unreachable as error:
        sys.stderr.write(f"{name}: error: {error}; the command may have taken effect\n")
        return LOST_EXIT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130


def _step(name: str, argv: List[str], environ: Mapping[str, str]) -> int:
    from .step import StepClient

    client = StepClient(lambda: wait_for_link(lambda: connect(os.environ), name), name=name)
    return client.run(argv, with_process(environ), folder())


def _ask(name: str, argv: List[str]) -> int:
    if name == "srun":
        return _step(name, argv, os.environ)
    if name == "sbcast":
        from . import sbcast

        return sbcast.main(argv, os.environ, lambda argv, environ: _step(name, argv, environ))
    from . import command

    return command.run(lambda: wait_for_link(lambda: connect(os.environ), name), name, argv)
