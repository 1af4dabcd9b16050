"""The user's choice between warpdeck's own scheduler and a real Slurm.

The choice applies to one command (`warpdeck --engine NAME`), to an environment ($WARPDECK_ENGINE), or to all commands
of the user (`--save`). It selects the home, see `paths.default_paths`. The first start in a new home decides to which
engine the home belongs. The choice cannot change that.
"""

from __future__ import annotations

import os

from .errors import UserError
from .paths import ENGINE_VARIABLE, OWN, Paths, known_engine, saved_engine_file

HOME_VARIABLE = "WARPDECK_HOME"


def use_engine(name: str) -> None:
    """Use this engine in this process and in all processes that it starts. Raises UserError."""
    os.environ[ENGINE_VARIABLE] = known_engine(name, source="--engine")


def save_engine(name: str) -> str:
    """Save the engine for all later commands of this user, and return the path of the file. Raises UserError."""
    known_engine(name, source="--engine")
    if os.environ.get(HOME_VARIABLE):
        raise UserError(
            f"the engine cannot be saved while {HOME_VARIABLE} is set: each home has its own engine",
            f"unset {HOME_VARIABLE}, or leave out --save",
        )
    path = saved_engine_file()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _write(path, name, mode=0o600)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {os.strerror(error.errno or 0)}", f"set {ENGINE_VARIABLE}={name} instead"
        ) from error
    return path


def claim_home(paths: Paths) -> None:
    """Record that the home belongs to its wanted engine. The caller has the lock of the home. Raises UserError.

    The file exists only in the home of a gateway. The home of a controller is recognized by its database.
    """
    paths.check_engine()
    if paths.wanted_engine != OWN and not paths.recorded_engine:
        _write(paths.engine_file, paths.wanted_engine, mode=0o644)  # The users of a shared home read it.


def _write(path: str, name: str, *, mode: int) -> None:
    fresh = f"{path}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, mode)
        file.write(f"{name}\n")
    os.replace(fresh, path)
