"""State of sbatch while it reads options: the values of one component of a job, and which options were given
where.

A later component of a heterogeneous job begins with the values of the previous one, except for options that
apply to each component separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warpdeck.notation.options.options import SBATCH_22_05

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

    def take_back(self, option: str) -> None:
        """Reset an option as if it had not been given."""
        self.given.pop(option, None)
        self.texts.pop(option, None)
        self.counts.pop(option, None)
        for name in FIELDS_OF.get(option, ()):
            self.__dict__.pop(name, None)

    def begin_component(self) -> None:
        """Begin another component and keep only options that apply to the whole job."""
        for kept in (self.given, self.texts, self.counts):
            for option in kept.keys() & EACH:
                del kept[option]
        for name in self.__dict__.keys() & _EACH_FIELDS:
            del self.__dict__[name]

    def by(self, option: str, where: str) -> bool:
        """Return whether the option was given in this place (LINE or ENVIRONMENT)."""
        return self.given.get(option) == where


FIELDS_OF: dict[str, tuple[str, ...]] = {
    "core-spec": ("core_spec",),
    "cores-per-socket": ("cores",),
    "cpus-per-task": ("cpus_per_task", "cpus_set"),
    "distribution": ("distribution", "plane_size"),
    "exclusive": ("shared",),
    "extra-node-info": ("sockets", "cores", "threads", "extra_set"),
    "gres-flags": ("gres_flags",),
    "hint": ("hint",),
    "mail-type": ("mail_types",),
    "mem-bind": ("mem_bind", "mem_bind_types"),
    "mincpus": ("min_cpus",),
    "no-requeue": ("requeue",),
    "nodes": ("min_nodes", "max_nodes", "nodes_set"),
    "ntasks": ("ntasks", "ntasks_set"),
    "overcommit": ("overcommit",),
    "oversubscribe": ("shared",),
    "requeue": ("requeue",),
    "sockets-per-node": ("sockets",),
    "switches": ("switches", "switches_wait_s"),
    "thread-spec": ("core_spec",),
    "threads-per-core": ("threads",),
}
"""Fields that an option sets besides its own entry, for options that can be reset."""

EACH = frozenset(name for name, option in SBATCH_22_05.options.items() if option.each)
"""Options whose values are not taken over by the next component of a heterogeneous job."""
_EACH_FIELDS = frozenset(field for option in EACH for field in FIELDS_OF.get(option, ()))

Setter = Callable[[Fields, str | None, OptionSource], None]
"""Function that parses and stores an option's value; raises Refusal."""
Getter = Callable[[Fields], str]
"""Function that returns the stored value of an option as text."""
