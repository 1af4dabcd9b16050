"""The site's settings: config.toml, decoded by msgspec. Without a file every default stands."""

from __future__ import annotations

import os

import msgspec

from warpdeck.errors import UserError


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of config.toml. Times in seconds."""

    grace_s: float = 30.0
    """Between TERM and KILL when a job is ended (Slurm's KillWait)."""
    avoid_foreign_gpu_processes: bool = True
    """A GPU on which a process outside the queue holds memory is given to no job."""
    keep_finished_s: float = 3600.0
    """How long ended jobs stay in the queue view; the history keeps them for ever."""
    default_time_limit_s: int | None = None
    """For jobs that ask for no limit; absent: none."""


def load_config(path: str) -> Config:
    """The settings in the file, or the defaults if there is none. Raises UserError naming file and key."""
    try:
        with open(path, "rb") as file:
            return msgspec.toml.decode(file.read(), type=Config)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {os.strerror(error.errno or 0)}", "check its permissions"
        ) from error
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: {error}", "correct it, then start again") from error
