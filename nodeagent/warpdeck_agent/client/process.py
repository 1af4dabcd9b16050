"""Properties of the calling process that a client sends: its folder, and its sendable variables.

As with Slurm's commands, the variables include the umask and the priority of the process, because the job's
processes start with the same umask and priority.
"""

from __future__ import annotations

import os

from .access import CommandRefused

TYPE_CHECKING = False
if TYPE_CHECKING:  # Not imported from typing: the import takes 3 ms.
    from typing import Dict, Iterable, Mapping

UMASK = "SLURM_UMASK"
NICENESS = "SLURM_PRIO_PROCESS"


def with_process(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with the caller's umask and priority, as in Slurm.

    A variable may override the umask. Values that are not UTF-8 text are omitted, and no job gets them.
    """
    made = {name: value for name, value in environ.items() if is_text(name + value)}
    made[NICENESS] = str(os.getpriority(os.PRIO_PROCESS, 0))
    if UMASK not in made:
        mask = os.umask(0o077)
        os.umask(mask)
        made[UMASK] = f"{mask:04o}"
    return made


def folder() -> str:
    """Return the current folder. Raises CommandRefused if it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise CommandRefused(
            "the current folder does not exist any more", "change to one that does"
        ) from error


def by_name(current: str, environ: Mapping[str, str]) -> str:
    """Return the current folder under the name that the shell uses for it (PWD)."""
    named = environ.get("PWD", "")
    return named if os.path.isabs(named) and os.path.realpath(named) == current else current


def check_arguments(arguments: Iterable[str]) -> None:
    """Raise CommandRefused if an argument cannot be sent."""
    if not all(map(is_text, arguments)):
        raise CommandRefused(
            "a name or an argument is not UTF-8 text", "rename the file or folder, or leave it out"
        )


def is_text(text: str) -> bool:
    """Return whether the text can be sent. Bytes that are not UTF-8 appear as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
