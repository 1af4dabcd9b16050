"""--export: selects the variables of the submitter that the job gets.

The value is ALL, NONE, or names and NAME=VALUE separated by commas; later ones win. As in Slurm 22.05, commas
inside of quotes belong to the value, and so do the quotes. Unknown names and invalid names are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .master_address import without_training
from .umask import UMASK

NICENESS = "SLURM_PRIO_PROCESS"
_OF_CALLER = (UMASK, NICENESS)
"""Properties of the caller's process other than its variables. They are sent among the variables."""

_KEPT = frozenset(
    {
        "SLURM_HOSTFILE",
        "SLURM_KILL_BAD_EXIT",
        "SLURM_LABELIO",
        "SLURM_MPI_TYPE",
        "SLURM_TIME_FORMAT",
        "SLURM_UNBUFFEREDIO",
        "SLURM_WAIT",
    }
)
"""Variables of Slurm that express the user's wishes for later steps and that no job sets itself."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"""(?:[^,'"]|'[^']*'|"[^"]*"|['"])+""")


def exported(export: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment to send.

    Variables that warpdeck or Slurm sets for jobs are left out, and so are values that are not valid UTF-8.
    The caller's umask and niceness are always included.
    """
    made = {name: environ[name] for name in _OF_CALLER if name in environ}
    own = {
        name: value
        for name, value in without_training(environ).items()
        if (not name.startswith(("SLURM_", "WARPDECK_")) or name in _KEPT) and _is_text(name + value)
    }
    for word in _WORD.findall(export):
        name, equals, value = word.partition("=")
        if word.upper() == "ALL":
            made |= own
        elif equals and _NAME.fullmatch(name):
            made |= {name: value} if _is_text(value) else {}
        elif name in own:
            made[name] = own[name]
    return made


def is_all(export: str) -> bool:
    """Return whether the whole environment is exported and nothing else. If not, Slurm makes the node add the
    login shell's variables.
    """
    return export.upper() == "ALL"


def invalid_names(export: str) -> list[str]:
    """Return the names of NAME=VALUE entries that are not valid variable names."""
    names = [name for name, equals, _ in (word.partition("=") for word in _WORD.findall(export)) if equals]
    return [name for name in names if not _NAME.fullmatch(name)]


def _is_text(word: str) -> bool:
    """Return whether the text can be sent. Bytes that are not valid UTF-8 appear as lone surrogates."""
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:
        return False
