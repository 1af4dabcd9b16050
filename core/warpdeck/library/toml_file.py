"""Reads a TOML file that describes work, such as a study or a pipeline."""

from __future__ import annotations

import os
from typing import TypeVar

import msgspec

from warpdeck.base.errors import UserError

T = TypeVar("T")


def read_toml(path: str, kind: type[T], *, verb: str) -> T:
    """Return the content of a TOML file as a `kind`. Raises UserError with a hint to the help of the verb."""
    try:
        with open(path, "rb") as file:
            return msgspec.toml.decode(file.read(), type=kind)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UserError(f"{path}: {error}", f"`warpdeck {verb} --help` shows an example") from error


def name_of(path: str) -> str:
    """Return the name of a file without its ending."""
    return os.path.splitext(os.path.basename(path))[0]
