"""Checks and completions that sbatch does after reading a component's options: exclusions and derived values.

Source: the man page and the real command. Values change as they do there: a job of 4 nodes and 2 tasks gets 2
nodes.
"""

from __future__ import annotations

from warpdeck.notation.option_values.bind_help import answer
from warpdeck.notation.option_values.bindings import binds
from warpdeck.notation.option_values.hosts import MAX_NUMBER, hosts_of, no_hosts
from warpdeck.notation.option_values.option_fields import ENVIRONMENT, LINE, Fields, OptionSource
from warpdeck.notation.option_values.table import take_back
from warpdeck.notation.values.hostlist import collapse, names_in
from warpdeck.notation.values.numbers import int32
from warpdeck.notation.values.refusal import VALUE_EXIT, Refusal

_LAYOUT_OPTIONS = ("ntasks-per-core", "threads-per-core", "extra-node-info")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_LEAVE_ONE = "keep one of them"
MAX_HOSTS_NAMED = 1_000_000
"""Maximum number of nodes named by all components of a script together. A thousand components could each name
the longest list.
"""


def check(fields: Fields, place: OptionSource) -> None:
    """Complete the fields. Raises Refusal for combinations that sbatch rejects before it shows the
    options.
    """
    _check_tasks_per_gpu(fields)
    _check_spec(fields)
    _check_memory(fields)
    if fields.texts.get("bb") and fields.texts.get("bbf"):
        raise Refusal("Cannot specify both --burst-buffer and --bbf", _LEAVE_ONE)
    _take_hint(fields)
    hosts = _read_hosts(fields, place)
    fields.hosts_named += len(hosts)
    if fields.hosts_named > MAX_HOSTS_NAMED:
        raise no_hosts(f"error: the components name over {MAX_HOSTS_NAMED:,} nodes")
    _complete_counts(fields, hosts)
    if fields.deadline and fields.begin and fields.deadline < fields.begin:
        raise Refusal(
            "Incompatible begin and deadline time specification", "let it begin before its deadline"
        )


def _fatal(words: str, hint: str = _LEAVE_ONE) -> Refusal:
    return Refusal(words, hint, level="fatal")


def _check_tasks_per_gpu(fields: Fields) -> None:
    gpu, tres = (fields.given.get(option) for option in ("ntasks-per-gpu", "ntasks-per-tres"))
    if not gpu and not tres:
        return
    if {gpu, tres} == {LINE, ENVIRONMENT}:
        take_back(fields, "ntasks-per-tres" if gpu == LINE else "ntasks-per-gpu")
        gpu, tres = (gpu, None) if gpu == LINE else (None, tres)
    if gpu and tres:
        per_gpu, per_tres = fields.counts["ntasks-per-gpu"], fields.counts["ntasks-per-tres"]
        if per_gpu != per_tres:
            raise _fatal(
                f"Inconsistent values set to --ntasks-per-gpu={per_gpu} and --ntasks-per-tres={per_tres} "
            )
    for option in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        name = {LINE: f"--{option}", ENVIRONMENT: "SLURM_" + option.replace("-", "_").upper()}
        if option in fields.given:
            found = name[fields.given[option]]
            raise _fatal(f"{found} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU")


def _check_spec(fields: Fields) -> None:
    """Check --core-spec and --thread-spec.

    Users may reserve cores only if the site allows it. Ours does not, and sbatch then ignores the option too.
    """
    if fields.by("core-spec", LINE) and fields.by("thread-spec", LINE):
        raise _fatal("-S/--core-spec and --thred-spec options are mutually exclusive")
    if fields.by("core-spec", ENVIRONMENT) and fields.by("thread-spec", ENVIRONMENT):
        raise _fatal(
            "Both --core-spec and --thread-spec set using environment variables. "
            "Those options are mutually exclusive."
        )


def _check_memory(fields: Fields) -> None:
    on_line = [option for option in _MEMORY if fields.by(option, LINE)]
    if len(on_line) > 1:
        raise _fatal("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if on_line:
        for option in _MEMORY:
            if option != on_line[0]:
                take_back(fields, option)
    elif sum(fields.by(option, ENVIRONMENT) for option in _MEMORY) > 1:
        raise _fatal("SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.")


def _take_hint(fields: Fields) -> None:
    """Apply --hint. The options that it stands for exclude it.

    If both are on the same level the hint is dropped, else the more specific level counts.
    """
    if "hint" not in fields.given:
        return
    laid = {fields.given.get(option) for option in _LAYOUT_OPTIONS}
    if binds(fields.texts.get("cpu-bind", "")) or not fields.by("hint", LINE):
        laid.add(fields.given.get("cpu-bind"))
    if fields.by("hint", LINE) and LINE not in laid:
        for option in _LAYOUT_OPTIONS:
            take_back(fields, option)
    elif LINE in laid or ENVIRONMENT in laid:
        take_back(fields, "hint")
        return
    take_back(fields, "cpu-bind")
    for word in _hint_words(fields.hint):
        _apply_hint(fields, word)


def _hint_words(text: str) -> list[str]:
    """Split the value of --hint at commas, except before a digit."""
    words = [""]
    for at, letter in enumerate(text):
        if letter == ";" or (letter == "," and not text[at + 1 : at + 2].isdigit()):
            words.append("")
        else:
            words[-1] += letter
    return words


def _apply_hint(fields: Fields, word: str) -> None:
    match word.lower():
        case "compute_bound":
            fields.sockets, fields.cores, fields.threads = None, None, 1
        case "memory_bound":
            fields.cores, fields.threads = 1, 1
        case "multithread":
            fields.threads = None
            fields.counts["ntasks-per-core"] = 0xFFFF
        case "nomultithread":
            fields.threads = 1
        case "help":
            raise answer("hint")
        case _:
            raise Refusal(
                f'unrecognized --hint argument "{word}", see --hint=help',
                "write compute_bound, memory_bound, multithread or nomultithread",
            )


def complete_paths(fields: Fields, place: OptionSource) -> None:
    """Make file names absolute: files of sbatch are relative to the directory where it was called."""
    cwd = fields.chdir or place.cwd
    for option in ("error", "input", "output"):
        path = fields.texts.get(option)
        if path is not None and not path.startswith("/"):
            fields.texts[option] = f"{cwd}/{path}"


def _read_hosts(fields: Fields, place: OptionSource) -> list[str]:
    """Return the requested nodes, without repetitions. A value with a slash names a host file."""
    texts = fields.texts
    if "/" in texts.get("exclude", ""):
        texts["exclude"] = read_hostfile(texts["exclude"], place)
    if texts.get("nodefile") is not None:
        try:
            texts["nodelist"] = read_hostfile(texts["nodefile"], place)
        except Refusal as error:
            more = tuple(error.lines) if texts["nodefile"] else ()
            raise Refusal(
                "Invalid --nodefile node file", error.hint, more=more, exit_code=VALUE_EXIT
            ) from None
    elif "nodelist" not in texts and place.environ.get("SLURM_HOSTFILE"):
        name = place.environ["SLURM_HOSTFILE"]
        try:
            texts["nodelist"] = read_hostfile(name if "/" in name else f"./{name}", place)
        except Refusal as error:
            words = "Failure getting NodeNames from hostfile"
            raise Refusal(
                words, "SLURM_HOSTFILE names a file of node names", more=tuple(error.lines)
            ) from None
        fields.distribution = "arbitrary"
    elif "/" in texts.get("nodelist", ""):
        texts["nodelist"] = read_hostfile(texts["nodelist"], place)
    if "nodelist" not in texts:
        return []
    return hosts_of(texts["nodelist"])


def read_hostfile(name: str, place: OptionSource) -> str:
    """Return a file of node names as a hostlist. Raises Refusal."""
    if not name:
        raise Refusal("Invalid --nodefile node file", "name a file")
    try:
        text = place.read_text(name)
    except IsADirectoryError:
        text = ""
    except OSError as error:
        words = f"slurm_allocate_resources error opening file {name}, {error.strerror}"
        raise Refusal(words, "a value with a / is a file of node names") from None
    return collapse(names_in(text, name))


def _complete_counts(fields: Fields, hosts: list[str]) -> None:
    if fields.is_srun and fields.nodes_set and 0 < fields.max_nodes < len(hosts):
        del hosts[fields.max_nodes :]
        fields.texts["nodelist"] = collapse(hosts)
    if "nodelist" in fields.texts:
        fields.min_nodes = max(len(hosts), fields.min_nodes) if fields.nodes_set else len(hosts)
        fields.nodes_set = True
    per_node = fields.counts.get("ntasks-per-node", 0)
    if per_node > 0 and not fields.ntasks_set and fields.max_nodes in (0, fields.min_nodes):
        fields.ntasks, fields.ntasks_set = int32(fields.min_nodes * per_node), True
    if fields.cpus_set and fields.min_cpus < fields.cpus_per_task:
        fields.min_cpus = fields.cpus_per_task
    _check_counts(fields)
    _massage(fields, hosts)
    _arrange(fields, hosts)


def _check_counts(fields: Fields) -> None:
    wrong: list[str] = []
    if fields.ntasks < 0:
        wrong.append(f"invalid number of tasks (-n {fields.ntasks})")
    if fields.cpus_set and fields.cpus_per_task <= 0:
        wrong.append(f"invalid number of cpus per task (-c {fields.cpus_per_task})")
    least, most = fields.min_nodes, fields.max_nodes
    if least < 0 or most < 0 or (most and least > most):
        wrong.append(f"invalid number of nodes (-N {least}-{most})")
    if wrong:
        raise Refusal(
            wrong[-1], "write numbers that go together", more=tuple(f"error: {w}" for w in wrong[:-1])
        )
    if fields.distribution == "plane" and fields.plane_size:
        full = int(fields.ntasks / fields.plane_size)
        few = (least - 1) * fields.plane_size >= fields.ntasks
        if (least <= 0 or full < least) and few:
            words = "Too few processes for the requested {plane,node} distribution"
            raise Refusal(words, "ask for more tasks, or fewer nodes")


def _massage(fields: Fields, hosts: list[str]) -> None:
    """Derive the number of tasks: if it was not given, one per node, times the requested sockets, cores and
    threads.
    """
    if fields.ntasks_set:
        if fields.nodes_set:
            _fit_nodes_to_tasks(fields, hosts)
        return
    if not (fields.nodes_set or fields.extra_set) or fields.max_nodes not in (0, fields.min_nodes):
        return
    fields.ntasks = max(fields.min_nodes, 1)
    layout = (fields.sockets, fields.cores, fields.threads)
    if fields.is_srun and "nodes" not in fields.given and None in layout:
        return  # srun derives the number of tasks from -B only if all three parts are given.
    for each in layout:
        if each is not None:
            fields.ntasks, fields.ntasks_set = int32(fields.ntasks * each), True


def _fit_nodes_to_tasks(fields: Fields, hosts: list[str]) -> None:
    fields.max_nodes = min(fields.max_nodes, fields.ntasks)
    if fields.ntasks < fields.min_nodes:
        fields.min_nodes = fields.max_nodes = fields.ntasks
        if len(hosts) > fields.min_nodes:
            fields.texts["nodelist"] = collapse(sorted(hosts, key=_host_order)[: fields.min_nodes])
            # srun treats --nodes as given together with the list.
            if fields.is_srun and "nodelist" in fields.given:
                fields.given.setdefault("nodes", fields.given["nodelist"])


def _host_order(name: str) -> tuple[str, int, int]:
    digits = name[len(name.rstrip("0123456789")) :][-MAX_NUMBER:]
    return name[: len(name) - len(digits)], len(digits), int(digits or "0")


def _arrange(fields: Fields, hosts: list[str]) -> None:
    """Derive tasks and nodes of an arbitrary distribution from the number of named nodes."""
    if fields.distribution.partition(",")[0] != "arbitrary":
        return
    if not fields.ntasks_set:
        fields.ntasks, fields.ntasks_set = len(hosts), True
    if not fields.nodes_set:
        fields.min_nodes = fields.max_nodes = len(hosts)
        fields.nodes_set = True
