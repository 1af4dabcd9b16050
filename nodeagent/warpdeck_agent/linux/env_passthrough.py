"""Passes on variables that a shell would drop, because their names are not identifiers.

The shell stands between the agent and the user's program. Examples are bash's exported functions
(BASH_FUNC_module%%), with which sites provide `module`. env(1), run by the shell, sets them again.
"""

from __future__ import annotations

from typing import List, Mapping, Sequence

ENV = "/usr/bin/env"
MAX_BYTES = 100_000
"""The most bytes of one variable: the kernel accepts arguments up to 128 KiB."""


def with_all_variables(argv: Sequence[str], env: Mapping[str, str]) -> List[str]:
    """Return the command, wrapped so that it runs with all of these variables."""
    if all(map(str.isidentifier, env)) and "".join(env).isascii():
        return list(argv)  # the common case, made fast because it runs for each task of an array
    dropped = [
        f"{name}={value}"
        for name, value in env.items()
        if not _is_kept(name) and name[:1] not in ("", "-") and len(name) + len(value) < MAX_BYTES
    ]
    if not dropped or "=" in argv[0]:  # env(1) would take a command with "=" for another variable
        return list(argv)
    return [ENV, *dropped, *argv]


def _is_kept(name: str) -> bool:
    """Return whether the name is a shell identifier, which is an ASCII identifier of Python."""
    return name.isascii() and name.isidentifier()
