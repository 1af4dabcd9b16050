"""The files of a folder that are not in its snapshot, with the reason for each.

The list is stored with the snapshot (`left_out` of the commit's JSON), so that it can be shown when the folder has changed.
Two kinds of files are not listed: those that git ignores, and output files with the default names of sbatch.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

MAX_LISTED = 1000
"""Number of files that are listed. The others are only counted."""


class Reason(StrEnum):
    """Why a file is not in the snapshot, in the words that the user reads."""

    LARGE = "over 50 MiB and not tracked by git"
    IGNORE_FILE = "named in .warpdeckignore"
    UNREADABLE = "cannot be read"
    SPECIAL = "neither a file nor a symbolic link"
    NESTING = "nested too deeply in other repositories"
    EMPTY_SUBMODULE = "submodule that is not checked out"
    NAME = "git does not store this name"


class LeftOut:
    """Collects the files that are left out."""

    def __init__(self) -> None:
        self.counts: Counter[Reason] = Counter()
        self._listed: list[dict[str, str]] = []

    def add(self, path: bytes, why: Reason) -> None:
        """Count a file, and list it unless the list is full."""
        self.counts[why] += 1
        if len(self._listed) < MAX_LISTED:
            self._listed.append({"path": os.fsdecode(path), "why": str(why)})

    def facts(self) -> dict[str, Any]:
        """Return the list as JSON."""
        return {"count": self.counts.total(), "paths": sorted(self._listed, key=lambda each: each["path"])}

    def note(self) -> str:
        """Return one line for the user, or "" if each file was left out at the user's own request."""
        if not self.counts.keys() - {Reason.IGNORE_FILE}:
            return ""
        parts = []
        for why, count in self.counts.most_common():
            first = next((each["path"] for each in self._listed if each["why"] == why), "")
            others = f" and {count - 1:,} more" if count > 1 else ""
            parts.append(f"{first}{others} ({why})")
        return f"not in the snapshot: {'; '.join(parts)}"


def left_out_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the list that is stored with a snapshot. Earlier versions stored only the names of large files."""
    if "left_out" in meta:
        return dict(meta["left_out"])
    paths = [{"path": name, "why": str(Reason.LARGE)} for name in meta.get("skipped", [])]
    return {"count": len(paths), "paths": paths}
