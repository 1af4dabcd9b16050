"""Presets: submission forms that are kept under a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named set of form values.

    `options` are written as on a command line; `command` is the text of a script without a file.
    """

    options: str = ""
    script: str = ""
    args: str = ""
    command: str = ""
    folder: str = ""


class Presets(NamedTuple):
    """All available presets, by name."""

    own: Mapping[str, Preset]
    site: Mapping[str, Preset]

    def all(self) -> dict[str, Preset]:
        """Return all presets. The user's replace the site's with the same name."""
        return {**self.site, **self.own}
