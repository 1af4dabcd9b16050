"""The user's settings of the app: app.toml in the configuration folder.

Options on the command line add to them.

notify = "own"          # desktop notifications for "marked" jobs, for the user's "own" jobs, or "none"
low_bandwidth = true
ascii = true            # false: all symbols; by default the locale decides
mouse = false
start = "overview"      # the first screen; "queue" by default
colors = "256"          # "rgb" or "256" on a terminal with at least 256 colors; "auto" asks the terminal
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir

SETTINGS_FILE = "app.toml"
MAX_SETTINGS_BYTES = 64 * 1024
"""Largest size of the file. It has six lines, so a larger file is there by mistake."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's settings of the app.

    `notify` selects the jobs whose start and end are reported on the desktop. If `ascii` is None, the
    terminal's locale decides.
    """

    notify: Literal["marked", "own", "none"] = "marked"
    start: Literal["queue", "overview"] = "queue"
    low_bandwidth: bool = False
    ascii: bool | None = None
    mouse: bool = True
    colors: Literal["auto", "rgb", "256"] = "auto"


def read_settings() -> Settings:
    """Return the settings of the file, or the defaults if there is none.

    Raises UserError that names the file and the problem.
    """
    path = Path(config_dir()) / SETTINGS_FILE
    try:
        with path.open("rb") as file:
            text = file.read(MAX_SETTINGS_BYTES + 1)
        if len(text) > MAX_SETTINGS_BYTES:
            raise ValueError(f"larger than {MAX_SETTINGS_BYTES // 1024} KiB")
        return msgspec.toml.decode(text, type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}", "Check its permissions") from error
    except ValueError as error:  # errors of msgspec are ValueErrors
        raise UserError(f"Cannot use {path}: {error}", "Correct or remove it") from error
