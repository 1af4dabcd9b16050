"""What a client tells of the process that calls it: its folder, its variables so far as they can be sent, and among these what
it has beside them, as Slurm's commands send it: a job is made of them."""

from __future__ import annotations

import os

from .access import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: it is 3 ms
    from typing import Dict, Iterable, Mapping

UMASK = "SLURM_UMASK"
NICENESS = "SLURM_PRIO_PROCESS"


def with_process(environ: Mapping[str, str]) -> Dict[str, str]:
    """The environment with what the caller's files are made with, which a variable may say, and how nice it is, as in Slurm.

    Values that are no UTF-8 text are left out: no job gets them.
    """
    made = {name: value for name, value in environ.items() if is_text(name + value)}
    made[NICENESS] = str(os.getpriority(os.PRIO_PROCESS, 0))
    if UMASK not in made:
        mask = os.umask(0o077)
        os.umask(mask)
        made[UMASK] = f"{mask:04o}"
    return made


def folder() -> str:
    """Where we are. Raises Refused."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise Refused("the current folder does not exist any more", "change to one that does") from error


def by_name(here: str, environ: Mapping[str, str]) -> str:
    """The folder by the name that the shell has for it."""
    named = environ.get("PWD", "")
    return named if os.path.isabs(named) and os.path.realpath(named) == here else here


def check_words(words: Iterable[str]) -> None:
    """Raises Refused where one cannot be sent."""
    if not all(map(is_text, words)):
        raise Refused("a name or an argument is not UTF-8 text", "rename the file or folder, or leave it out")


def is_text(word: str) -> bool:
    """Whether it can be sent: bytes that are no UTF-8 come as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
