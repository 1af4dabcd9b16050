"""--export: which variables of the submitter go along. ALL, NONE, or names and NAME=VALUE between commas; later ones win.

Measured beside 22.05: commas inside of quotes belong to the value, and so do the quotes; a name that there is not says
nothing, and neither does one that is no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .master_address import without_training
from .umask import UMASK

NICENESS = "SLURM_PRIO_PROCESS"
_OF_CALLER = (UMASK, NICENESS)
"""What the caller's process has beside its variables, and sends among them."""

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
"""Variables of Slurm's that are the user's word on steps to come, and that no job sets."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"""(?:[^,'"]|'[^']*'|"[^"]*"|['"])+""")


def exported(export: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that is sent.

    Ours and Slurm's own job variables are left out, and values that are no UTF-8 text. The caller's umask and niceness always
    go along.
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
    """Whether it is all of the environment and nothing else. Otherwise Slurm has the node add the login shell's to it."""
    return export.upper() == "ALL"


def left_out(export: str) -> list[str]:
    """What would set a variable, but for its name."""
    names = [name for name, equals, _ in (word.partition("=") for word in _WORD.findall(export)) if equals]
    return [name for name in names if not _NAME.fullmatch(name)]


def _is_text(word: str) -> bool:
    """Whether it can be sent: bytes that are no UTF-8 come as lone surrogates."""
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:
        return False
