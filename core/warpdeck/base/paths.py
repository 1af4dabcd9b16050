"""Paths of all files of warpdeck.

The home is $WARPDECK_HOME if that is set, else the site's home if root has created one for all users
(`warpdeck up --shared`), else a folder in the user's XDG folders. Several controllers can run side by side
with different homes.

A home has one engine for its whole life: warpdeck's own scheduler, which a controller runs, or a real Slurm,
to which a gateway connects. The choice of the engine therefore is a choice between homes (`base.engine_choice`).

The command line imports this module, so it uses only the standard library.
"""

from __future__ import annotations

import os

from .errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:  # not `typing.TYPE_CHECKING`, because the command line imports this module
    from collections.abc import Mapping

SITE_HOME = "/var/lib/warpdeck/site"
"""The home that `warpdeck up --shared` creates. Only root can create it, so no other user can redirect users'
jobs to it.
"""
SITE_GATEWAY_HOME = "/var/lib/warpdeck/slurm"
"""The home of the site gateway to Slurm. Only root can create it, and gives it to the account of the site gateway."""
OWN, SLURM = "warpdeck", "slurm"
"""The engines: warpdeck's own scheduler, and a real Slurm. EngineRow has the same names."""
ENGINES = (OWN, SLURM)
FOLDERS = {OWN: "warpdeck", SLURM: "warpdeck-slurm"}
"""Maps an engine to the name of its user's home in $XDG_STATE_HOME."""
ENGINE_VARIABLE = "WARPDECK_ENGINE"
ENGINE_TITLES = {OWN: "warpdeck's own scheduler", SLURM: "a gateway to Slurm"}
MAX_NAME_BYTES = 100
"""Largest size of a file that contains the name of an engine."""


class Paths:
    """The files of one controller or gateway. `home` is private (0700) unless root has created it for all users.

    `wanted_engine` is the engine that the user chose, or "". It becomes the engine of a new home.

    This is not a dataclass, because importing `dataclasses` costs every command 6 ms.
    """

    def __init__(self, home: str, *, wanted_engine: str = "") -> None:
        self.home = home
        self.wanted_engine = wanted_engine

    @property
    def engine_file(self) -> str:
        """Contains "slurm" in the home of a gateway. The home of a controller has no such file."""
        return os.path.join(self.home, "engine")

    @property
    def recorded_engine(self) -> str:
        """The engine to which the home belongs, or "" if the home was not used yet. Raises UserError."""
        return read_engine(self.engine_file) or (OWN if os.path.exists(self.database) else "")

    @property
    def engine(self) -> str:
        """The engine of the home. A new home gets the engine that the user chose. Raises UserError."""
        return self.recorded_engine or self.wanted_engine or OWN

    @property
    def daemon(self) -> str:
        """The name of the process that serves the home, for messages. Raises UserError."""
        return "gateway" if self.engine == SLURM else "controller"

    def check_engine(self) -> None:
        """Raise UserError if the home belongs to another engine than the chosen one."""
        recorded = self.recorded_engine
        if recorded and self.wanted_engine not in ("", recorded):
            raise UserError(
                f"{self.home} belongs to {ENGINE_TITLES[recorded]}, not to {ENGINE_TITLES[self.wanted_engine]}",
                f"use another home (WARPDECK_HOME), or this one with `warpdeck --engine {recorded}`",
            )

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
        return os.path.join(self.home, f"{self.daemon}.log")

    @property
    def config(self) -> str:
        """The site's settings, or those of a gateway. The file need not exist."""
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
    def standby_settings(self) -> str:
        """The standby of this controller (see standby_files)."""
        return os.path.join(self.home, "standby.json")

    @property
    def successor(self) -> str:
        """The machine that has taken over from this one."""
        return os.path.join(self.home, "successor.json")

    @property
    def standby_role(self) -> str:
        """On a standby: the file that names the controller's machine."""
        return os.path.join(self.home, "standby-of.json")

    @property
    def standby_contact(self) -> str:
        """On a standby: the file with the last message from the controller."""
        return os.path.join(self.home, "standby-contact.json")

    @property
    def taken_over(self) -> str:
        """The file that records the takeover by the controller of this home."""
        return os.path.join(self.home, "taken-over.json")

    @property
    def keys(self) -> str:
        """Private keys for SSH to nodes that a standby got from its controller."""
        return os.path.join(self.home, "keys")

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
    def terminals(self) -> str:
        """The folder with a file for each session that a terminal of this user shows (see client/open_terminals)."""
        return self._of_user("terminals")

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


class SiteGatewayPaths(Paths):
    """The files of a site gateway, which asks Slurm for the gateways of all users and serves no clients of its own."""

    def __init__(self, home: str) -> None:
        super().__init__(home, wanted_engine=SLURM)

    @property
    def daemon(self) -> str:
        return "site gateway"

    @property
    def socket(self) -> str:
        return os.path.join(self.home, "answers.sock")

    @property
    def log(self) -> str:
        return os.path.join(self.home, "site-gateway.log")


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


def default_paths(environ: Mapping[str, str] = os.environ, *, engine: str = "") -> Paths:
    """Return the paths of the home that applies to this environment. Raises UserError.

    It is $WARPDECK_HOME, else the home of the script that runs a Slurm command, else the site's home, else
    $XDG_STATE_HOME/warpdeck, else ~/.local/state/warpdeck. For Slurm, the folder is called warpdeck-slurm.

    `engine` is the engine that the caller chose. It replaces the user's choice. A site's home of another engine
    is not used. Any other home of another engine is an error.
    """
    explicit = environ.get("WARPDECK_HOME")
    if explicit:
        home = os.path.abspath(os.path.expanduser(explicit))
        paths = Paths(home, wanted_engine=engine or engine_variable(environ))
    elif _shim_home:
        return Paths(_shim_home)
    else:
        engine = engine or chosen_engine(environ)
        site = Paths(SITE_HOME)
        if os.path.isdir(SITE_HOME) and engine in ("", site.engine):
            return site
        state = _xdg("XDG_STATE_HOME", ".local/state", environ)
        paths = Paths(os.path.join(state, FOLDERS[engine or OWN]), wanted_engine=engine)
    if paths.wanted_engine:
        paths.check_engine()
    return paths


def chosen_engine(environ: Mapping[str, str] = os.environ) -> str:
    """Return the engine that the user chose, or "" without a choice. Raises UserError.

    It is $WARPDECK_ENGINE, else the engine that `warpdeck --engine NAME --save` saved.
    """
    return engine_variable(environ) or read_engine(saved_engine_file(environ))


def engine_variable(environ: Mapping[str, str] = os.environ) -> str:
    """Return $WARPDECK_ENGINE, or "". Raises UserError."""
    value = environ.get(ENGINE_VARIABLE, "")
    return known_engine(value, source=f"${ENGINE_VARIABLE}") if value else ""


def saved_engine_file(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the file that contains the user's choice of the engine."""
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config", environ), "warpdeck", "engine")


def read_engine(path: str) -> str:
    """Return the engine that the file names, or "" if there is no such file. Raises UserError."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_NAME_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return known_engine(text, source=path)


def known_engine(name: str, *, source: str) -> str:
    """Return the name of an engine. Raises UserError, which names the source, if there is no such engine."""
    if name not in ENGINES:
        raise UserError(f"{source} names no engine: {name[:40]!r}", f"use {' or '.join(ENGINES)}")
    return name


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
