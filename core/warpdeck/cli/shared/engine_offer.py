"""The question whether to use the Slurm of this machine, before the first home of warpdeck is made.

It is asked only on a terminal, only if no setting chooses an engine, and only if Slurm answers. The answer is saved.
"""

from __future__ import annotations

import os
import sys

from warpdeck.base.engine_choice import HOME_VARIABLE, save_engine, use_engine
from warpdeck.base.errors import UserError
from warpdeck.base.paths import OWN, SLURM, default_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ANSWER_S = 3.0
"""Longest time that Slurm may take to answer. After that, its configuration file decides."""
CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
"""Usual paths of slurm.conf. The last one is that of a machine without its own (configless)."""
ANSWERS = {"s": SLURM, "slurm": SLURM, "w": OWN, "warpdeck": OWN}
MAX_QUESTIONS = 5
"""Number of answers that are read before the command gives up."""


def offer_engine() -> None:
    """Ask which engine to use, if the user has a choice and has not chosen yet. Raises UserError."""
    if is_undecided(os.environ) and sys.stdin.isatty() and sys.stdout.isatty() and slurm_answers(os.environ):
        name = ask(sys.stdin.readline)
        path = save_engine(name)
        use_engine(name)
        print(f"Saved in {path}.")


def is_undecided(environ: Mapping[str, str]) -> bool:
    """Return whether no setting chooses an engine and no home of warpdeck exists. Raises UserError."""
    if environ.get(HOME_VARIABLE) or "WARPDECK_TOKEN" in environ:  # the latter: a process of a job
        return False
    paths = default_paths(environ)
    return not paths.wanted_engine and not os.path.isdir(paths.home)


def slurm_answers(environ: Mapping[str, str]) -> bool:
    """Return whether the commands on the PATH are those of a Slurm that answers or is configured."""
    import shutil  # these imports would delay a command that asks nothing
    import subprocess

    from warpdeck.slurm.shims.shim_scripts import path_without_shims

    path = path_without_shims(environ.get("PATH", os.defpath))
    programs = {name: shutil.which(name, path=path) for name in ("scontrol", "sinfo")}
    if None in programs.values():
        return False
    env = {**environ, "PATH": path, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [str(programs["scontrol"]), "ping"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass
    else:
        if done.returncode == 0 and " UP" in done.stdout:
            return True
    named = environ.get("SLURM_CONF")
    return any(os.path.exists(each) for each in ((named,) if named else CONFIGURATIONS))


def ask(read_line: Callable[[], str]) -> str:
    """Ask on the terminal, and return the chosen engine. Raises UserError without an answer."""
    print(
        "Slurm runs on this machine. warpdeck can connect to it (s), or manage the GPUs of this machine itself (w)."
    )
    for _ in range(MAX_QUESTIONS):
        print("Which one do you want? The answer is saved. [s/w] ", end="", flush=True)
        line = read_line()
        if not line:
            print()
            break
        if name := ANSWERS.get(line.strip().lower()):
            return name
    raise UserError(
        "no engine was chosen", f"choose one with `warpdeck --engine {SLURM}` or `warpdeck --engine {OWN}`"
    )
