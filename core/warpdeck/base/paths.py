"""Paths of all files of warpdeck.

The home is $WARPDECK_HOME if that is set, else the site's home if root has created one for all users
(`warpdeck up --shared`), else a folder in the user's XDG folders. Several controllers can run side by side
with different homes. The command line imports this module, so it uses only the standard library.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not `typing.TYPE_CHECKING`, because the command line imports this module
    from collections.abc import Mapping

SITE_HOME = "/var/lib/warpdeck/site"
"""The home that `warpdeck up --shared` creates. Only root can create it, so no other user can redirect users'
jobs to it.
"""


class Paths:
    """The files of one controller. `home` is private (0700) unless root has created it for all users.

    This is not a dataclass, because importing `dataclasses` costs every command 6 ms.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    @property
    def is_of_another(self) -> bool:
        """Whether the home belongs to another user."""
        return os.path.isdir(self.home) and os.stat(self.home).st_uid != os.getuid()

    @property
    def socket(self) -> str:
        return os.path.join(self.home, "warpdeck.sock")

    @property
    def lock(self) -> str:
        return os.path.join(self.home, "controller.lock")

    @property
    def log(self) -> str:
        return os.path.join(self.home, "controller.log")

    @property
    def config(self) -> str:
        """The site's settings. The file need not exist."""
        return os.path.join(self.home, "config.toml")

    @property
    def database(self) -> str:
        return os.path.join(self.home, "state.db")

    @property
    def trees(self) -> str:
        """Packed snapshots that are sent to nodes: trees/<uid>/<tree>.tar.gz"""
        return os.path.join(self.home, "trees")

    @property
    def outputs(self) -> str:
        """For each launch, the number of bytes of output that were already copied from its node."""
        return os.path.join(self.home, "outputs")

    @property
    def agent(self) -> str:
        """The embedded agent's folder."""
        return os.path.join(self.home, "agent")

    @property
    def known_hosts(self) -> str:
        """Host keys that the user accepted through warpdeck."""
        return os.path.join(self.home, "known_hosts")

    @property
    def snapshots(self) -> str:
        """This user's snapshot store, a bare git repository."""
        return self._of_user("snapshots.git")

    @property
    def recorder(self) -> str:
        """The socket of this user's recorder (see client/snapshot_recorder)."""
        return self._of_user("recorder")

    @property
    def submitter(self) -> str:
        """The folder for the logs of this user's submitters (see the package submitter)."""
        return self._of_user("submitter")

    @property
    def ssh(self) -> str:
        """This user's key for SSH into jobs, and the jobs' host keys."""
        return self._of_user("ssh")

    @property
    def calls(self) -> str:
        """Folders of this user's executors, with the output and the results of functions that ran as jobs."""
        return self._of_user("calls")

    @property
    def programs(self) -> str:
        """This user's scripts with the names of Slurm's commands: `srun`, `squeue` and the others."""
        return self._of_user("programs")

    def _of_user(self, name: str) -> str:
        """Return the path of the user's own file.

        If the home belongs to another user, it is in the XDG data folder.
        """
        if self.is_of_another:
            return os.path.join(_xdg("XDG_DATA_HOME", ".local/share", os.environ), "warpdeck", name)
        return os.path.join(self.home, name)


_shim_home: str | None = None
"""The home of the script that started this process. "" means a Slurm command without such a script, None any
other command.
"""


def declare_slurm_command(home: str) -> None:
    """Declare that this process is one of Slurm's commands.

    A script for this home started it. If `home` is "", no such script did.
    """
    global _shim_home
    _shim_home = home


def start_refusal(paths: Paths) -> str:
    """Return the reason why this process must not start a controller in this home, or "" if it may.

    Slurm's commands also run with cleaned environments (sudo, cron, systemd). They would then start a second
    controller in another home, for CPUs that the first one manages. Slurm's commands therefore start a
    controller only in a home that somebody has set up, and only if no setting names a different home.
    """
    if _shim_home is None:
        return ""
    if _shim_home and paths.home != _shim_home:
        return f"this command was made for the home {_shim_home}, but WARPDECK_HOME is {paths.home}"
    if "WARPDECK_TOKEN" in os.environ:
        return "processes started by a job end with the job"
    if not os.path.isdir(paths.home) and (_shim_home or not os.environ.get("WARPDECK_HOME")):
        return f"{paths.home} is not set up"
    return ""


def default_paths(environ: Mapping[str, str] = os.environ) -> Paths:
    """Return the paths of the home that applies to this environment.

    It is $WARPDECK_HOME, else the home of the script that runs a Slurm command, else the site's home, else
    $XDG_STATE_HOME/warpdeck, else ~/.local/state/warpdeck.
    """
    explicit = environ.get("WARPDECK_HOME")
    if explicit:
        return Paths(os.path.abspath(os.path.expanduser(explicit)))
    if _shim_home:
        return Paths(_shim_home)
    if os.path.isdir(SITE_HOME):
        return Paths(SITE_HOME)
    return Paths(os.path.join(_xdg("XDG_STATE_HOME", ".local/state", environ), "warpdeck"))


def config_dir() -> str:
    """Return the folder of a user's themes and keys: $WARPDECK_HOME/config, else
    $XDG_CONFIG_HOME/warpdeck.
    """
    explicit = os.environ.get("WARPDECK_HOME")
    if explicit and not default_paths().is_of_another:
        return os.path.join(os.path.abspath(os.path.expanduser(explicit)), "config")
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config", os.environ), "warpdeck")


def _xdg(variable: str, fallback: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return value
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), fallback)
