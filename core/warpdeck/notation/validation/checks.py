"""Checks and completions that sbatch does after reading a component's options: exclusions and derived values.

Source: the man page and the real command. Values change as they do there: a job of 4 nodes and 2 tasks gets 2
nodes.
"""

from __future__ import annotations

from warpdeck.notation.option_values.bindings import binds, hint_words
from warpdeck.notation.option_values.hosts import MAX_NUMBER, hosts_of, no_hosts
from warpdeck.notation.option_values.slurm_options import ENVIRONMENT, LINE, SlurmOptions
from warpdeck.notation.option_values.value_table import take_back
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.values.hostlist import collapse, names_in
from warpdeck.notation.values.numbers import int32
from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

_LAYOUT_OPTIONS = ("ntasks-per-core", "threads-per-core", "extra-node-info")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_LEAVE_ONE = "keep one of them"
MAX_HOSTS_NAMED = 1_000_000
"""Maximum number of nodes named by all components of a script together. A thousand components could each name
the longest list.
"""


def check(options: SlurmOptions, source: OptionSource) -> None:
    """Complete the options. Raises SlurmError for combinations that sbatch rejects before it shows the
    options.
    """
    _check_tasks_per_gpu(options)
    _check_spec(options)
    _check_memory(options)
    if options.values.get("bb") and options.values.get("bbf"):
        raise SlurmError("Cannot specify both --burst-buffer and --bbf", _LEAVE_ONE)
    _resolve_hint(options)
    hosts = _read_hosts(options, source)
    options.hosts_named += len(hosts)
    if options.hosts_named > MAX_HOSTS_NAMED:
        raise no_hosts(f"error: the components name more than {MAX_HOSTS_NAMED:,} nodes")
    _complete_counts(options, hosts)
    if 0 < options.values.get("deadline", 0) < options.values.get("begin", 0):
        raise SlurmError(
            "Incompatible begin and deadline time specification", "let it begin before its deadline"
        )


def _fatal(words: str, hint: str = _LEAVE_ONE) -> SlurmError:
    return SlurmError(words, hint, level="fatal")


def _check_tasks_per_gpu(options: SlurmOptions) -> None:
    gpu, tres = (options.given.get(option) for option in ("ntasks-per-gpu", "ntasks-per-tres"))
    if not gpu and not tres:
        return
    if {gpu, tres} == {LINE, ENVIRONMENT}:
        take_back(options, "ntasks-per-tres" if gpu == LINE else "ntasks-per-gpu")
        gpu, tres = (gpu, None) if gpu == LINE else (None, tres)
    if gpu and tres:
        per_gpu, per_tres = options.values["ntasks-per-gpu"], options.values["ntasks-per-tres"]
        if per_gpu != per_tres:
            raise _fatal(
                f"Inconsistent values set to --ntasks-per-gpu={per_gpu} and --ntasks-per-tres={per_tres} "
            )
    for option in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        name = {LINE: f"--{option}", ENVIRONMENT: "SLURM_" + option.replace("-", "_").upper()}
        if option in options.given:
            found = name[options.given[option]]
            raise _fatal(f"{found} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU")


def _check_spec(options: SlurmOptions) -> None:
    """Check --core-spec and --thread-spec.

    Users may reserve cores only if the site allows it. Ours does not, and sbatch then ignores the option too.
    """
    if options.by("core-spec", LINE) and options.by("thread-spec", LINE):
        raise _fatal("-S/--core-spec and --thred-spec options are mutually exclusive")
    if options.by("core-spec", ENVIRONMENT) and options.by("thread-spec", ENVIRONMENT):
        raise _fatal(
            "Both --core-spec and --thread-spec set using environment variables. "
            "Those options are mutually exclusive."
        )


def _check_memory(options: SlurmOptions) -> None:
    on_line = [option for option in _MEMORY if options.by(option, LINE)]
    if len(on_line) > 1:
        raise _fatal("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if on_line:
        for option in _MEMORY:
            if option != on_line[0]:
                take_back(options, option)
    elif sum(options.by(option, ENVIRONMENT) for option in _MEMORY) > 1:
        raise _fatal("SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.")


def _resolve_hint(options: SlurmOptions) -> None:
    """Apply --hint. The options that it stands for exclude it.

    If both are on the same level the hint is dropped, else the more specific level counts.
    """
    if "hint" not in options.given:
        return
    laid = {options.given.get(option) for option in _LAYOUT_OPTIONS}
    if binds(options.values.get("cpu-bind", "")) or not options.by("hint", LINE):
        laid.add(options.given.get("cpu-bind"))
    if options.by("hint", LINE) and LINE not in laid:
        for option in _LAYOUT_OPTIONS:
            take_back(options, option)
    elif LINE in laid or ENVIRONMENT in laid:
        take_back(options, "hint")
        return
    take_back(options, "cpu-bind")
    for word in hint_words(options.hint):
        _apply_hint(options, word)


def _apply_hint(options: SlurmOptions, word: str) -> None:
    match word:
        case "compute_bound":
            options.sockets, options.cores, options.threads = None, None, 1
        case "memory_bound":
            options.cores, options.threads = 1, 1
        case "multithread":
            options.threads = None
            options.values["ntasks-per-core"] = 0xFFFF
        case "nomultithread":
            options.threads = 1


def complete_paths(options: SlurmOptions, source: OptionSource) -> None:
    """Make file names absolute: files of sbatch are relative to the directory where it was called."""
    cwd = options.chdir or source.cwd
    for option in ("error", "input", "output"):
        path = options.values.get(option)
        if path is not None and not path.startswith("/"):
            options.values[option] = f"{cwd}/{path}"


def _read_hosts(options: SlurmOptions, source: OptionSource) -> list[str]:
    """Return the requested nodes, without repetitions. A value with a slash names a host file."""
    values = options.values
    if "/" in values.get("exclude", ""):
        values["exclude"] = read_hostfile(values["exclude"], source)
    if values.get("nodefile") is not None:
        try:
            values["nodelist"] = read_hostfile(values["nodefile"], source)
        except SlurmError as error:
            more = tuple(error.lines) if values["nodefile"] else ()
            raise SlurmError(
                "Invalid --nodefile node file", error.hint, more=more, exit_code=VALUE_EXIT
            ) from None
    elif "nodelist" not in values and source.environ.get("SLURM_HOSTFILE"):
        name = source.environ["SLURM_HOSTFILE"]
        try:
            values["nodelist"] = read_hostfile(name if "/" in name else f"./{name}", source)
        except SlurmError as error:
            words = "Failure getting NodeNames from hostfile"
            raise SlurmError(
                words, "set SLURM_HOSTFILE to a file of node names", more=tuple(error.lines)
            ) from None
        options.distribution = "arbitrary"
    elif "/" in values.get("nodelist", ""):
        values["nodelist"] = read_hostfile(values["nodelist"], source)
    if "nodelist" not in values:
        return []
    return hosts_of(values["nodelist"])


def read_hostfile(name: str, source: OptionSource) -> str:
    """Return a file of node names as a hostlist. Raises SlurmError."""
    if not name:
        raise SlurmError("Invalid --nodefile node file", "name a file")
    try:
        text = source.read_text(name)
    except IsADirectoryError:
        text = ""
    except OSError as error:
        words = f"slurm_allocate_resources error opening file {name}, {error.strerror}"
        raise SlurmError(words, "a value with a slash names a file of node names") from None
    return collapse(names_in(text, name))


def _complete_counts(options: SlurmOptions, hosts: list[str]) -> None:
    if options.is_srun and options.nodes_set and 0 < options.max_nodes < len(hosts):
        del hosts[options.max_nodes :]
        options.values["nodelist"] = collapse(hosts)
    if "nodelist" in options.values:
        options.min_nodes = max(len(hosts), options.min_nodes) if options.nodes_set else len(hosts)
        options.nodes_set = True
    per_node = options.values.get("ntasks-per-node", 0)
    if per_node > 0 and not options.ntasks_set and options.max_nodes in (0, options.min_nodes):
        options.ntasks, options.ntasks_set = int32(options.min_nodes * per_node), True
    if options.cpus_set and options.min_cpus < options.cpus_per_task:
        options.min_cpus = options.cpus_per_task
    _check_counts(options)
    _derive_tasks(options, hosts)
    _apply_arbitrary_distribution(options, hosts)


def _check_counts(options: SlurmOptions) -> None:
    wrong: list[str] = []
    if options.ntasks < 0:
        wrong.append(f"invalid number of tasks (-n {options.ntasks})")
    if options.cpus_set and options.cpus_per_task <= 0:
        wrong.append(f"invalid number of cpus per task (-c {options.cpus_per_task})")
    least, most = options.min_nodes, options.max_nodes
    if least < 0 or most < 0 or (most and least > most):
        wrong.append(f"invalid number of nodes (-N {least}-{most})")
    if wrong:
        raise SlurmError(
            wrong[-1], "write numbers that go together", more=tuple(f"error: {w}" for w in wrong[:-1])
        )
    if options.distribution == "plane" and options.plane_size:
        full = int(options.ntasks / options.plane_size)
        few = (least - 1) * options.plane_size >= options.ntasks
        if (least <= 0 or full < least) and few:
            words = "Too few processes for the requested {plane,node} distribution"
            raise SlurmError(words, "ask for more tasks, or fewer nodes")


def _derive_tasks(options: SlurmOptions, hosts: list[str]) -> None:
    """Derive the number of tasks: if it was not given, one per node, times the requested sockets, cores and
    threads.
    """
    if options.ntasks_set:
        if options.nodes_set:
            _fit_nodes_to_tasks(options, hosts)
        return
    if not (options.nodes_set or options.extra_set) or options.max_nodes not in (0, options.min_nodes):
        return
    options.ntasks = max(options.min_nodes, 1)
    layout = (options.sockets, options.cores, options.threads)
    if options.is_srun and "nodes" not in options.given and None in layout:
        return  # srun derives the number of tasks from -B only if all three parts are given.
    for each in layout:
        if each is not None:
            options.ntasks, options.ntasks_set = int32(options.ntasks * each), True


def _fit_nodes_to_tasks(options: SlurmOptions, hosts: list[str]) -> None:
    options.max_nodes = min(options.max_nodes, options.ntasks)
    if options.ntasks < options.min_nodes:
        options.min_nodes = options.max_nodes = options.ntasks
        if len(hosts) > options.min_nodes:
            options.values["nodelist"] = collapse(sorted(hosts, key=_host_order)[: options.min_nodes])
            # srun treats --nodes as given together with the list.
            if options.is_srun and "nodelist" in options.given:
                options.given.setdefault("nodes", options.given["nodelist"])


def _host_order(name: str) -> tuple[str, int, int]:
    digits = name[len(name.rstrip("0123456789")) :][-MAX_NUMBER:]
    return name[: len(name) - len(digits)], len(digits), int(digits or "0")


def _apply_arbitrary_distribution(options: SlurmOptions, hosts: list[str]) -> None:
    """Derive tasks and nodes of an arbitrary distribution from the number of named nodes."""
    if options.distribution.partition(",")[0] != "arbitrary":
        return
    if not options.ntasks_set:
        options.ntasks, options.ntasks_set = len(hosts), True
    if not options.nodes_set:
        options.min_nodes = options.max_nodes = len(hosts)
        options.nodes_set = True
