"""The site's settings: config.toml, decoded by msgspec. Without a file every default stands; an unknown key is refused."""

from __future__ import annotations

import difflib
import os
import re
from typing import Annotated

import msgspec

from warpdeck.errors import UserError

MAX_CONFIG_BYTES = 1024 * 1024
"""A settings file beyond this is some other file."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=10 * 365 * 86_400)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of config.toml. Times in seconds. The README lists them."""

    grace_s: Seconds = 30.0
    """Between TERM and KILL when a job is ended (Slurm's KillWait)."""
    avoid_foreign_gpu_processes: bool = True
    """A GPU on which a process outside the queue holds memory is given to no job."""
    keep_finished_s: Seconds = 3600.0
    """How long ended jobs stay in the queue view; the history keeps them for ever."""
    default_time_limit_s: Annotated[int, msgspec.Meta(ge=60, le=2**31)] | None = None
    """For jobs that ask for no limit; absent: none."""


def load_config(path: str) -> Config:
    """The settings in the file, or the defaults if there is none. Raises UserError naming file, line and key."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        hint = "check its permissions"
        raise UserError(f"cannot read {path}: {os.strerror(error.errno or 0)}", hint) from error
    if len(data) > MAX_CONFIG_BYTES:
        raise UserError(f"{path} is over {MAX_CONFIG_BYTES >> 20} MiB", "is it a settings file?")
    try:
        return msgspec.toml.decode(data, type=Config)
    except msgspec.ValidationError as error:
        raise _wrong_key(path, data.decode(), str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no TOML: {error}", "correct it, then start again") from error


def _wrong_key(path: str, text: str, complaint: str) -> UserError:
    """msgspec names the key; where it stands in the file is looked up."""
    unknown = re.search(r"unknown field `(.+?)`", complaint)
    wrong = re.search(r"\$\.(\w+)", complaint)
    key = unknown[1] if unknown else wrong[1] if wrong else ""
    where = f"{path}, line {_line_of(key, text)}"
    if not unknown:
        return UserError(
            f"{where}: {key}: {complaint.partition(' - at')[0].lower()}", "see the README's table"
        )
    near = difflib.get_close_matches(key, Config.__struct_fields__, n=1)
    hint = f"did you mean {near[0]}?" if near else "the keys are " + ", ".join(Config.__struct_fields__)
    return UserError(f"{where}: there is no setting {key!r}", hint)


def _line_of(key: str, text: str) -> int:
    pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}\b")
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, start=1) if pattern.match(line)), 1)
