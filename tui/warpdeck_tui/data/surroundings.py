"""Facts about this machine that the welcome page offers: hosts of the user's SSH configuration, and a Slurm."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

MAX_CONFIG_BYTES = 256 * 1024
"""Largest part of ~/.ssh/config that is read."""
MAX_HOSTS = 200
WILDCARDS = frozenset("*?!%")
CODE_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "ssh.github.com", "codeberg.org")
"""Hosts in many configurations that serve Git repositories and run no jobs."""
SLURM_COMMANDS = ("sinfo", "squeue")
SCRIPT_MARK, MAX_HEAD_BYTES = b"warpdeck", 512
"""Our own scripts with the names of Slurm's commands contain this word in their first bytes."""


class Surroundings(NamedTuple):
    """The names of hosts in the SSH configuration, and whether Slurm's commands are on the PATH."""

    hosts: tuple[str, ...] = ()
    has_slurm: bool = False


def look_around() -> Surroundings:
    """Read the SSH configuration of the user and look for Slurm. Nothing is connected or run."""
    return Surroundings(ssh_hosts(os.path.expanduser("~/.ssh/config")), has_slurm())


def ssh_hosts(path: str) -> tuple[str, ...]:
    """Return the names after "Host" in this file that are no patterns, in their order. Included files are not read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            text = file.read(MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in text.splitlines():
        words = line.replace("=", " ", 1).split()
        if len(words) > 1 and words[0].lower() == "host":
            names = (word.strip('"') for word in words[1:])
            found |= {name: None for name in names if name and not WILDCARDS & set(name)}
    return tuple(name for name in found if name.lower() not in CODE_HOSTS)[:MAX_HOSTS]


def has_slurm() -> bool:
    """Return whether the commands of a real Slurm are on the PATH. Our own scripts with their names do not count."""
    found = [shutil.which(name) for name in SLURM_COMMANDS]
    return all(path is not None and not _is_ours(path) for path in found)


def _is_ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return SCRIPT_MARK in file.read(MAX_HEAD_BYTES)
    except OSError:
        return False
