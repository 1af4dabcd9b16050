"""What the user wants of the app every time: app.toml in the configuration folder. Options on the command line add to it.

notify = "own"          # the desktop hears of "marked" jobs, of one's "own", or of "none"
low_bandwidth = true
ascii = true            # or false: all signs; without it the locale says
mouse = false
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir

SETTINGS_FILE = "app.toml"
MAX_SETTINGS_BYTES = 64 * 1024
"""It has four lines; a larger file is something else by mistake."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`notify`: whose starts and ends the desktop is told of. `ascii` None: as the terminal's locale says."""

    notify: Literal["marked", "own", "none"] = "marked"
    low_bandwidth: bool = False
    ascii: bool | None = None
    mouse: bool = True


def read_settings() -> Settings:
    """The usual ones if there is no file. Raises UserError naming the file and what is wrong."""
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
        raise UserError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise UserError(f"{path} cannot be used: {error}", "correct it, or take it away") from error
