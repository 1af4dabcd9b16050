"""Presets: submission forms that are kept under a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`options` as on a command line. `command`: the commands of a script that lies in no file."""

    options: str = ""
    script: str = ""
    args: str = ""
    command: str = ""
    folder: str = ""


class Presets(NamedTuple):
    """All that can be chosen, by name."""

    own: Mapping[str, Preset]
    site: Mapping[str, Preset]

    def all(self) -> dict[str, Preset]:
        """The user's outrank the site's."""
        return {**self.site, **self.own}
