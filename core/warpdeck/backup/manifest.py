"""The manifest of a backup, and the names of its parts."""

from __future__ import annotations

import re
import time

import msgspec

FORMAT = 1
"""Version of the archive's layout. A higher one is refused."""
MANIFEST, DATABASE, CONFIG, HOST_KEYS, KEYS, TREES = (
    *("manifest.json", "state.db", "config.toml", "known_hosts", "ssh", "trees"),
)
PART = re.compile(
    rf"{re.escape(DATABASE)}|{re.escape(CONFIG)}|{HOST_KEYS}|{KEYS}/[\w.@-]*\w[\w.@-]*|"
    rf"{TREES}/\d+/\w+\.tar\.gz(\.sha256)?",
    re.ASCII,
)
"""The only names that an archive may contain besides the manifest. None of them leads out of its folder."""
GENERATION = re.compile(r"warpdeck-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-(?P<site>[0-9a-f]{8})\.tar\.gz")
"""Name of a backup in a folder of backups."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    name: str
    """Path in the archive, such as state.db."""
    size_bytes: int
    sha256: str
    """SHA-256 of the content, in hexadecimal digits."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that identify the state of a database."""

    schema: int
    """Version of the database's schema."""
    controller_id: str
    """Random id of the site."""
    jobs: int
    """Number of jobs in the database, also ended ones."""
    highest_job_id: int
    """Highest id of a job in the database."""
    next_job_id: int
    """Id of the next job."""
    epoch: int | None = None
    """Number of the controller's last start that took over the site, if the database records it."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a backup."""

    format: int
    """Version of the layout of the archive."""
    warpdeck: str
    """The version of warpdeck that made the backup."""
    at_unix: float
    """Time of the copy of the database, in Unix seconds."""
    counters: Counters
    """Numbers of the database."""
    parts: tuple[Part, ...]
    """All other parts of the archive."""

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)


def generation_name(manifest_at_unix: float, controller_id: str) -> str:
    """Return the file name of a backup in a folder. Names sort by time."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(manifest_at_unix))
    return f"warpdeck-{stamp}-{site_tag(controller_id)}.tar.gz"


def site_tag(controller_id: str) -> str:
    """Return the first digits of the controller's id. Backups of several sites may lie in one folder."""
    return controller_id[:8]
