"""Variables that a shell drops between us and the user's program: those whose names are no identifiers.

Such are bash's exported functions (BASH_FUNC_module%%), with which sites offer `module`. env(1) behind the shell sets them again.
"""

from __future__ import annotations

from typing import List, Mapping, Sequence

ENV = "/usr/bin/env"
MAX_BYTES = 100_000
"""Of one variable: the kernel takes words up to 128 KiB."""


def carrying(argv: Sequence[str], env: Mapping[str, str]) -> List[str]:
    """The command, run with all of these variables."""
    if all(map(str.isidentifier, env)) and "".join(env).isascii():
        return list(argv)  # nearly every time: an array's task should not have to look at each name
    dropped = [
        f"{name}={value}"
        for name, value in env.items()
        if not _is_kept(name) and name[:1] not in ("", "-") and len(name) + len(value) < MAX_BYTES
    ]
    if not dropped or "=" in argv[0]:  # which env(1) would take for another variable
        return list(argv)
    return [ENV, *dropped, *argv]


def _is_kept(name: str) -> bool:
    """Whether it is an identifier of a shell's, which is one of Python's in ASCII."""
    return name.isascii() and name.isidentifier()
