"""Where warpdeck keeps its things. Everything below $WARPDECK_HOME if that is set; else below the site's home if root has
made one for all (`warpdeck up --shared`); else in the user's XDG folders.

Several controllers live side by side by having several homes. Standard library only: the command line imports this.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # not typing's own: the command line imports this
    from collections.abc import Mapping

SITE_HOME = "/var/lib/warpdeck/site"
"""The home that `warpdeck up --shared` makes. Only root can, so that nobody else can have users send their jobs to it."""


class Paths:
    """The files of one controller. `home` is private (0700) unless a site's root made it for all.

    Not a dataclass: the import of dataclasses costs every verb 6 ms.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    @property
    def is_of_another(self) -> bool:
        """Whether the home is somebody else's."""
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
        """The site's settings; need not exist."""
        return os.path.join(self.home, "config.toml")

    @property
    def database(self) -> str:
        return os.path.join(self.home, "state.db")

    @property
    def trees(self) -> str:
        """Packed snapshots on their way to nodes: trees/<uid>/<tree>.tar.gz"""
        return os.path.join(self.home, "trees")

    @property
    def outputs(self) -> str:
        """How far the output of each launch was brought from its node."""
        return os.path.join(self.home, "outputs")

    @property
    def agent(self) -> str:
        """The embedded agent's folder."""
        return os.path.join(self.home, "agent")

    @property
    def known_hosts(self) -> str:
        """Host keys the user accepted through warpdeck."""
        return os.path.join(self.home, "known_hosts")

    @property
    def snapshots(self) -> str:
        """This user's snapshot store, a bare git repository."""
        return self._of_user("snapshots.git")

    @property
    def recorder(self) -> str:
        """Where this user's recorder listens (snapshots/recorder)."""
        return self._of_user("recorder")

    @property
    def submitter(self) -> str:
        """What this user's submitters say of their bugs (submitter)."""
        return self._of_user("submitter")

    @property
    def ssh(self) -> str:
        """This user's key for SSH into jobs, and the jobs' host keys."""
        return self._of_user("ssh")

    @property
    def calls(self) -> str:
        """Folders of this user's executors: what functions that ran as jobs have written and answered."""
        return self._of_user("calls")

    @property
    def programs(self) -> str:
        """This user's scripts with Slurm's command names: `srun`, `squeue` and the rest."""
        return self._of_user("programs")

    def _of_user(self, name: str) -> str:
        """What is the user's own. In a home of somebody else's it lies in the XDG data folder."""
        if self.is_of_another:
            return os.path.join(_xdg("XDG_DATA_HOME", ".local/share", os.environ), "warpdeck", name)
        return os.path.join(self.home, name)


_shim_home: str | None = None
"""The home for which the script was written that started this process; "": Slurm's command without one; None: no such command."""


def be_slurms_command(home: str) -> None:
    """This process is one of Slurm's commands, started by a script that was written for this home ("": by none)."""
    global _shim_home
    _shim_home = home


def start_refusal(paths: Paths) -> str:
    """Why this process must not start a controller in that home; "" if it may.

    Slurm's commands run with cleaned environments (sudo, cron, systemd) too, and would start a second controller somewhere on
    CPUs that another one manages. So they start one only where somebody has set up the home, and nothing names another.
    """
    if _shim_home is None:
        return ""
    if _shim_home and paths.home != _shim_home:
        return f"this command was made for the home {_shim_home}, but WARPDECK_HOME is {paths.home}"
    if "WARPDECK_TOKEN" in os.environ:
        return "what a job starts ends with the job"
    if not os.path.isdir(paths.home) and (_shim_home or not os.environ.get("WARPDECK_HOME")):
        return f"nobody has set up {paths.home}"
    return ""


def default_paths(environ: Mapping[str, str] = os.environ) -> Paths:
    """$WARPDECK_HOME, else that of the script that runs a Slurm command, else the site's, else $XDG_STATE_HOME/warpdeck, else
    ~/.local/state/warpdeck."""
    explicit = environ.get("WARPDECK_HOME")
    if explicit:
        return Paths(os.path.abspath(os.path.expanduser(explicit)))
    if _shim_home:
        return Paths(_shim_home)
    if os.path.isdir(SITE_HOME):
        return Paths(SITE_HOME)
    return Paths(os.path.join(_xdg("XDG_STATE_HOME", ".local/state", environ), "warpdeck"))


def config_dir() -> str:
    """Where a user's themes and keys are: $WARPDECK_HOME/config, else $XDG_CONFIG_HOME/warpdeck."""
    explicit = os.environ.get("WARPDECK_HOME")
    if explicit and not default_paths().is_of_another:
        return os.path.join(os.path.abspath(os.path.expanduser(explicit)), "config")
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config", os.environ), "warpdeck")


def _xdg(variable: str, fallback: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return value
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), fallback)
