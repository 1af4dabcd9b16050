"""Decides when the settings that hide parts of the cluster are to be read again.

slurmctld tells nobody that it was reconfigured, and asking costs requests. A change of its configuration files announces it,
and looking at them costs none. An administrator changes the files first and reconfigures slurmctld a moment or an hour
later. So after a change the settings are read once a minute until slurmctld reports other ones. Where no file can be seen,
they are always read once a minute.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import suppress

POLICY_S = 600.0
"""Maximum age in seconds while no file has changed. A partition may also be hidden with `scontrol update`."""
UNSETTLED_S = 60.0
"""Maximum age in seconds while slurmctld may be about to get another configuration."""
GIVE_UP_S = 3600.0
"""Seconds after which a changed file no longer announces anything. Many changes are of no consequence, or are undone."""
LOOK_S = 5.0
"""Seconds between two looks at the files."""
WAIT_S = 1.0
"""Seconds for which a question waits for the files. Their file system may hang."""
CONFIGLESS = "/run/slurm/conf/slurm.conf"
"""The copy that slurmctld sends to slurmd or sackd on this machine."""
MAX_FILES = 100
MAX_FILE_BYTES = 4 * 1024 * 1024
_INCLUDE = re.compile(rb"^[ \t]*include[ \t]+(\S+)", re.IGNORECASE | re.MULTILINE)
_ALWAYS_NEW = frozenset({"NEXT_JOB_ID", "HASH_VAL"})
"""Lines of `scontrol show config` that change without a new configuration: HASH_VAL compares the local file."""
Stamp = tuple[tuple[str, int, int, int], ...]
"""The path, the time, the size and the inode of each file."""


class PolicyAge:
    """The maximum age of the settings. `named` is SLURM_CONF of the environment, or "". Times are of a monotonic clock."""

    def __init__(self, named: str) -> None:
        self._paths = [path for path in (named, CONFIGLESS) if path]
        self._stamp: Stamp | None = None
        self._config: Mapping[str, str] = {}
        self._looked: float | None = None
        self._looking: asyncio.Task[Stamp] | None = None
        self._changed_at: float | None = None
        """The time at which a change of the files was seen that slurmctld has not taken over yet."""
        self._is_read = False
        """Whether the settings were read since the change."""

    def max_age_s(self, now: float) -> float:
        """Return the maximum age of the settings, after which they must be read again."""
        if not self.is_unsettled(now):
            return POLICY_S
        return UNSETTLED_S if self._is_read else 0.0

    def is_unsettled(self, now: float) -> bool:
        """Return whether slurmctld may get another configuration at any moment."""
        is_announced = self._changed_at is not None and now - self._changed_at < GIVE_UP_S
        return is_announced or not self._stamp

    def note_config(self, config: Mapping[str, str]) -> None:
        """Record the settings that slurmctld has reported now."""
        found = {name: value for name, value in config.items() if name not in _ALWAYS_NEW}
        if self._config and found != self._config:
            self._changed_at = None
        self._is_read = True
        self._config = found
        if (path := config.get("SLURM_CONF", "")).startswith("/") and path not in self._paths:
            self._paths.append(path)
            self._looked = None

    async def look(self, now: float) -> None:
        """Look at the files, unless that was done a moment ago."""
        if self._looking is None:
            if self._looked is not None and now - self._looked < LOOK_S:
                return
            self._looked = now
            self._looking = asyncio.create_task(asyncio.to_thread(stamp_of, tuple(self._paths)))
        done, _ = await asyncio.wait([self._looking], timeout=WAIT_S)
        if not done or self._looking is None:
            return
        found, self._looking = self._looking.result(), None
        known, self._stamp = self._stamp, found
        if known and found and not set(known) <= set(found):
            self._changed_at, self._is_read = now, False


def stamp_of(paths: tuple[str, ...]) -> Stamp:
    """Return the stamp of these files and of the files that they include. Unreadable files are left out."""
    waiting, found = list(paths), dict[str, tuple[str, int, int, int]]()
    while waiting and len(found) < MAX_FILES:
        path = waiting.pop()
        if path in found:
            continue
        with suppress(OSError, ValueError), open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            found[path] = (path, facts.st_mtime_ns, facts.st_size, facts.st_ino)
            names = _INCLUDE.findall(file.read(MAX_FILE_BYTES))
            waiting += [os.path.join(os.path.dirname(path), os.fsdecode(name)) for name in names]
    return tuple(sorted(found.values()))
