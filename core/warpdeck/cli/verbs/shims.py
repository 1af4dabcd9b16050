"""`warpdeck shims`: put Slurm's command names on the PATH."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import stat
import subprocess

from warpdeck.base.errors import UserError
from warpdeck.base.paths import OWN, SLURM, Paths, default_paths
from warpdeck.base.slurm_version import SPOKEN
from warpdeck.cli.arguments import Argument, Group
from warpdeck.cli.verb import Verb
from warpdeck.slurm.shims.shim_scripts import SBATCH, install, install_beside_others, is_own, remove_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

USER_FOLDER = ".local/bin"
SITE_FOLDER = "/usr/local/bin"
SHELL_S = 10.0
"""Longest time that a login shell may take to print its PATH."""
MARK = "WARPDECK-PATH:"
"""Printed before the PATH, because start files may print other text."""
PROFILES = {"bash": (".bash_profile", ".bash_login", ".profile"), "zsh": (".zprofile",)}


def _shims(args: Namespace) -> int:
    """Write the scripts and print a command for the shell."""
    if args.version:
        print(SPOKEN)
        return 0
    paths = default_paths()
    if paths.engine == SLURM:
        raise UserError(
            "Slurm's own commands are already there: a gateway to Slurm replaces none of them",
            f"use --engine {OWN} for the commands of warpdeck's own scheduler",
        )
    if args.install or args.remove:
        folder = _target_folder(paths)
        return _install(paths, folder) if args.install else _remove(paths, folder)
    folder = install(paths)
    print(folder if args.folder else f"export PATH={shlex.quote(folder)}:$PATH")
    return 0


def _target_folder(paths: Paths) -> str:
    """Return the common folder for a shared site of root, else the user's own folder."""
    if os.geteuid() == 0 and os.path.isdir(paths.home) and os.stat(paths.home).st_mode & stat.S_IXOTH:
        return SITE_FOLDER
    return os.path.join(os.path.expanduser("~"), USER_FOLDER)


def _install(paths: Paths, folder: str) -> int:
    if not os.path.isdir(paths.home):
        raise UserError(f"{paths.home} does not exist", "start the controller first: warpdeck up")
    install_beside_others(paths, folder)
    print(f"Slurm commands installed in {folder}, for {paths.home}")
    print(f"They speak {SPOKEN}.")
    path = _login_path()
    if folder not in path:
        print(f"This folder is not on the PATH of login shells. Add this line to {_profile()}:")
        print(f"  export PATH={shlex.quote(folder)}:$PATH")
        return 0
    found = shutil.which(SBATCH, path=os.pathsep.join(path))
    if found and os.path.dirname(found) != folder and not is_own(found, paths):
        print(f"Login shells find {found} first: move {folder} before {os.path.dirname(found)} in their PATH")
    return 0


def _remove(paths: Paths, folder: str) -> int:
    count = remove_from(paths, folder)
    print(
        f"{count} Slurm commands removed from {folder}" if count else f"no commands of warpdeck in {folder}"
    )
    return 0


def _login_path() -> list[str]:
    """Return the PATH of this user's login shell, or [] if the shell does not print it."""
    account = pwd.getpwuid(os.getuid())
    env = {
        "HOME": os.path.expanduser("~"),
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
        "PATH": "/usr/bin:/bin",
    }
    try:
        done = subprocess.run(
            [account.pw_shell or "/bin/sh", "-lc", f'echo "{MARK}$PATH"'],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SHELL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    told = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    return told[-1].removeprefix(MARK).split(os.pathsep) if told else []


def _profile() -> str:
    """Return the start file that this user's login shell reads."""
    shell = os.path.basename(pwd.getpwuid(os.getuid()).pw_shell)
    names = PROFILES.get(shell, (".profile",))
    home = os.path.expanduser("~")
    return "~/" + next((name for name in names if os.path.exists(os.path.join(home, name))), names[-1])


VERBS = (
    Verb(
        "shims",
        "Print the line that puts sbatch, srun, squeue and the other Slurm commands first on a shell's PATH.\n"
        f"With --install, write them to ~/{USER_FOLDER} (as root for a shared site: {SITE_FOLDER}).",
        (
            Group(
                Argument("--folder", "print only the folder of the commands"),
                Argument("--install", "write them to a folder on the PATH of login shells"),
                Argument("--remove", "remove the files that --install wrote"),
                Argument("--version", "print the version of Slurm that the commands speak"),
            ),
        ),
        examples=(
            "warpdeck shims --install                         for login shells, cron and other programs",
            "warpdeck shims --remove                          remove them again",
            "warpdeck shims --folder",
            "warpdeck shims --version                         the version of Slurm that they speak",
            'eval "$(warpdeck shims)"                        in this shell',
            "echo 'eval \"$(warpdeck shims)\"' >> ~/.bashrc   in every shell",
        ),
        reads=False, run=_shims,
    ),
)  # fmt: skip
