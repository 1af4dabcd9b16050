"""State of sbatch while it reads options: the values of one component of a job, and which options were given
where.

A later component of a heterogeneous job begins with the values of the previous one, except for options that
apply to each component separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

LINE, ENVIRONMENT = "line", "environment"
"""Where an option was given: LINE on a command line or in the script, ENVIRONMENT by a variable."""


def _no_file(name: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", name)


class OptionSource:
    """External data that the parser needs. The notation package itself reads neither clock nor disk."""

    def __init__(
        self,
        *,
        cwd: str,
        environ: Mapping[str, str],
        now: float,
        is_root: bool = False,
        user_id: Callable[[str], int | None] = lambda name: None,
        group_id: Callable[[str], int | None] = lambda name: None,
        read_text: Callable[[str], str] = _no_file,
        gres: tuple[str, ...] = ("gpu", "shard", "nvme"),
    ) -> None:
        self.cwd = cwd
        self.environ = environ
        self.now = now
        self.is_root = is_root
        self.user_id = user_id
        self.group_id = group_id
        self.read_text = read_text
        """Function that returns the content of a file and raises OSError if that fails."""
        self.gres = gres
        """Resources that --gres may name."""


class Fields:
    """The values of the options. None is Slurm's NO_VAL, which means that the value was not given."""

    min_nodes: int = 1
    max_nodes: int = 0
    nodes_set: bool = False
    ntasks: int = 1
    ntasks_set: bool = False
    cpus_per_task: int = 0
    cpus_set: bool = False
    min_cpus: int = -1
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    extra_set: bool = False
    shared: str = "unset"
    requeue: str = "unset"
    core_spec: int | None = None
    overcommit: bool = False
    mail_types: int = 0
    warn_signal: int = 0
    warn_s: int = 0
    warn_reservation: bool = False
    warn_batch: bool = False
    distribution: str = ""
    plane_size: int = 0
    gres_flags: str = "unset"
    user_env_s: int = -1
    user_env_mode: str = ""
    switches: int = -1
    switches_wait_s: int | None = None
    begin: float = 0
    deadline: float = 0
    kill_invalid: str = "unset"
    mem_bind: str = ""
    mem_bind_types: frozenset[str] = frozenset()
    chdir: str = ""
    hint: str = ""
    is_srun: bool = False
    """srun uses as many of the named nodes as --nodes allows. The other commands reject too many."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """Values of options that are stored as text."""
        self.counts: dict[str, int] = {}
        """Values of options that are plain numbers."""
        self.given: dict[str, str] = {}
        """For each given option, where it was given: LINE or ENVIRONMENT."""
        self.hosts_named = 0
        """Number of nodes named by this component and those before it."""

    def by(self, option: str, where: str) -> bool:
        """Return whether the option was given in this place (LINE or ENVIRONMENT)."""
        return self.given.get(option) == where


class OptionText(NamedTuple):
    """An option as given. `text` is None if it was given without a value."""

    option: str
    text: str | None
    source: OptionSource

    @property
    def word(self) -> str:
        """The value; "" if there is none."""
        return self.text or ""


Getter = Callable[[Fields, str], str]
"""Function that returns the stored value of an option as Slurm's commands print it."""


def show_stored(fields: Fields, option: str) -> str:
    """Return a value that is stored under its option's name."""
    if option in fields.counts:
        return str(fields.counts[option])
    return fields.texts.get(option, "(null)")


class SlurmValue(NamedTuple):
    """How Slurm's commands read and show the value of an option."""

    read: Callable[[Fields, OptionText], None]
    """Function that parses and stores the value; raises Refusal."""
    show: Getter = show_stored
    fields: tuple[str, ...] = ()
    """Attributes of `Fields` that the option sets besides its own entry."""
