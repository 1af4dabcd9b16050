"""Read config.toml from disk."""

from __future__ import annotations

import os

from warpdeck.base.errors import UserError

from .decode import MAX_TEXT_BYTES, Decoded, decode
from .tables import Config


def load(path: str) -> Decoded:
    """Return the configuration in the file, or the defaults if the file does not exist.

    Raises ConfigError, or UserError if the file cannot be read.
    """
    try:
        return read(path)
    except FileNotFoundError:
        return Decoded(config=Config())


def read(path: str) -> Decoded:
    """Return the configuration in a file that must exist.

    Raises FileNotFoundError, ConfigError, UserError.
    """
    return decode(read_text(path), path)


def read_text(path: str) -> str:
    """Return the text of the file. Raises FileNotFoundError, UserError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_TEXT_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UserError(f"cannot read {path}: {reason}", "check its permissions") from error
    if len(raw) > MAX_TEXT_BYTES:
        raise UserError(
            f"{path} is larger than {MAX_TEXT_BYTES // 2**20} MiB", "check that it is the right file"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8", "save the file as UTF-8") from None
    return text.replace("\r\n", "\n")
