"""srun's command line: options up to the command, and the variables that stand for options. One grammar for every place.

Options become a step (model.StepAsk, in its JSON shape) and what concerns the streams alone (Streams); those that describe an
allocation go to the request of a new job where there is none, and say nothing inside one, as in Slurm. Later ones win, and
all outrank the variables. An option that we do not have is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from warpdeck.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.errors import UserError
from warpdeck.slurm.version import VERSION

from .containers import OPTIONS as CONTAINER_OPTIONS
from .containers import check_container
from .directives import MAX_COMPONENTS
from .exports import exported
from .getopt import parse_components, parse_leading
from .gres import parse_gpus, parse_gres
from .hostfile import names_in
from .hostlist import expand
from .memory import parse_memory
from .multiprog import parse_programs
from .options import COMMAND, HONOURED, NONE, NOTED, REFUSED, SALLOC, SBATCH, SRUN, with_plugins
from .request import Options
from .sbatch.bindhelp import help_of
from .signals import parse_signal
from .srunhelp import HELP
from .stepwords import told_of_step
from .submitfiles import LIMITS_FILE, propagated
from .tasklayout import parse_distribution, parse_gpu_bind, parse_tres_per_task
from .times import parse_limit
from .unsupported import unsupported
from .variables import SALLOC_VARIABLES, SRUN_VARIABLES, override

WHERE = "srun"
_STREAMS_ONLY = frozenset(
    {"output", "error", "input", "export", "open-mode", "chdir", "gpu-bind", "propagate"}
)
"""What srun's step has of its own, and a job that is made for it has not."""
_OF_JOBS = (
    frozenset(name for name, option in SBATCH.options.items() if option.here == HONOURED) - _STREAMS_ONLY
)
_APART = (
    ("exact", "whole"),
    ("exclusive", "overlap"),
    ("pty", "error"),
    ("pty", "input"),
    ("pty", "output"),
    ("quiet", "verbose"),
)
_COUNT = re.compile(r"\d{1,9}")
_SPAN = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_VARIABLES = {
    "SLURM_BCAST": "bcast",
    "SLURM_CPU_BIND": "cpu-bind",
    "SLURM_DISTRIBUTION": "distribution",
    "SLURM_EPILOG": "epilog",
    "SLURM_EXACT": "exact",
    "SLURM_EXCLUSIVE": "exclusive",
    "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_GPU_BIND": "gpu-bind",
    "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit",
    "SLURM_LABELIO": "label",
    "SLURM_MEM_BIND": "mem-bind",
    "SLURM_MPI_TYPE": "mpi",
    "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
    "SLURM_OPEN_MODE": "open-mode",
    "SLURM_OVERCOMMIT": "overcommit",
    "SLURM_OVERLAP": "overlap",
    "SLURM_PROLOG": "prolog",
    "SLURM_REMOTE_CWD": "chdir",
    "SLURM_SRUN_MULTI": "multi-prog",
    "SLURM_STDERRMODE": "error",
    "SLURM_STDINMODE": "input",
    "SLURM_STDOUTMODE": "output",
    "SLURM_STEP_GRES": "gres",
    "SLURM_TASK_EPILOG": "task-epilog",
    "SLURM_TASK_PROLOG": "task-prolog",
    "SLURM_TIMELIMIT": "time",
    "SLURM_UNBUFFEREDIO": "unbuffered",
    "SLURM_WAIT": "wait",
    "SLURM_WHOLE": "whole",
    "SLURM_WORKING_DIR": "chdir",
    "SRUN_CPUS_PER_TASK": "cpus-per-task",
}
"""Variables that stand for options; the job's own (SLURM_NTASKS ...) say what the controller knows better."""


NO_PLUGINS: Mapping[str, str] = {}
MPI_TYPES = {"none": "none", "pmi": "pmi2", "pmi1": "pmi2", "pmi2": "pmi2"}
"""PMI-2's server speaks PMI-1 too, as in Slurm."""
MPI_LIST = "MPI plugin types are...\n\tnone\n\tpmi2\n"


class Streams(msgspec.Struct, kw_only=True):
    """What becomes of the tasks' streams: patterns of files on srun's side, modes "all", "none" or a rank; "" is srun's own."""

    output: str = ""
    error: str = ""
    input: str = ""
    label: bool = False
    append: bool = False
    quiet: bool = False
    quits_on_interrupt: bool = False

    def after(self, first: Streams) -> Streams:
        """Those of a further program of `srun A : B`: what its own options do not say is as the first's."""
        return Streams(
            output=self.output or first.output,
            error=self.error or first.error,
            input=self.input or first.input,
            label=self.label or first.label,
            append=first.append,
            quiet=first.quiet,
            quits_on_interrupt=first.quits_on_interrupt,
        )


class Srun(msgspec.Struct, kw_only=True):
    """A command line, understood."""

    ask: dict[str, Any]
    streams: Streams
    job: str = ""
    """--jobid, else the job that the environment names, else ""."""
    job_options: Options = []
    """What a job that is made for it is asked for."""
    export: str = ""
    """--export; "" is all."""
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    needs: str = ""
    """A file whose text is needed before it can be understood."""
    immediate_s: float | None = None
    """How long an allocation that is made for it is waited for; None: as long as it takes."""
    passed_over: bool = False
    """Whether an option was given that changes nothing here."""
    groups: tuple[int, ...] = ()
    """--het-group: the components in which it runs, by offset; () is the first."""
    told: str = ""
    """What is answered in place of a step."""
    told_code: int = 0
    """srun's exit code then."""


def parse_srun(
    words: list[str],
    environ: Mapping[str, str],
    *,
    files: Mapping[str, str],
    plugins: Mapping[str, str] = NO_PLUGINS,
) -> Srun:
    """`files` holds the texts of files that were asked for before (Srun.needs), and LIMITS_FILE; `plugins` are the options of a
    site's plug-ins, which change nothing here. Raises UserError."""
    options, command = parse_leading(words, WHERE, with_plugins(SRUN, plugins) if plugins else SRUN)
    options = [one for one in options if one[0] in SRUN.options]
    _check_pairs({name for name, _ in options})
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    asked = Srun(ask={}, streams=Streams(), job=job, environ=environ, files=files)
    asked.ask["limits"] = propagated("ALL", files.get(LIMITS_FILE, ""))
    inside = bool(asked.job) or any(option == "jobid" for option, _ in options)
    set_by = _by_variables(environ, inside=inside)
    for option, value, variable in set_by:
        _apply(asked, option, value, f"{WHERE}: {variable}")
    for option, value in options:
        if option == "nodefile" or (option in ("nodelist", "exclude") and "/" in value):
            names = _names(asked, value)
            option, value = "exclude" if option == "exclude" else "nodelist", ",".join(dict.fromkeys(names))
        _apply(asked, option, value, WHERE)
    if (listed := environ.get("SLURM_HOSTFILE")) and "nodelist" not in asked.ask:
        asked.ask |= {"hosts": _names(asked, listed), "distribution": "arbitrary"}
    _count_by_gpus(asked.ask)
    asked.export = asked.export or environ.get("SRUN_EXPORT_ENV") or environ.get("SLURM_EXPORT_ENV", "")
    if asked.told:
        return asked
    if not command:
        raise UserError("No command given to execute.", "write: srun [OPTIONS] COMMAND...", exit_code=1)
    if any(one[0] == "multi-prog" for one in (*set_by, *options)):
        if command[0] in files:
            asked.ask["programs"] = parse_programs(files[command[0]], command[0])
        else:
            asked.needs = command[0]
    else:
        asked.ask["argv"] = command
    check_container(asked.ask.get("container"))
    asked.ask.setdefault("name", (command[0].rsplit("/", 1)[-1])[:1024])
    given = {name.replace("_", "-"): value for name, value, *_ in (*set_by, *options)}
    asked.ask["env"] = exported(asked.export or "ALL", environ) | told_of_step(given)
    return asked


def programs_of(words: Sequence[str]) -> list[list[str]]:
    """The command lines of srun A : B."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            found.append([])
        else:
            found[-1].append(word)
    return found


def parse_groups(text: str) -> tuple[int, ...]:
    """Components by offset, as 0,2-4 names them, ascending. Raises UserError."""
    spans = [_SPAN.fullmatch(word) for word in text.split(",")]
    found: set[int] = set()
    for span in spans:
        first, last = (0, -1) if span is None else (int(span[1]), int(span[2] or span[1]))
        if not 0 <= first <= last < MAX_COMPONENTS:
            raise UserError(
                f"Invalid --het-group value: {text}", f"write numbers below {MAX_COMPONENTS}, such as 0,1"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _check_pairs(given: set[str]) -> None:
    """Raises UserError for options that srun does not take together."""
    for one, other in _APART:
        if one in given and other in given:
            raise UserError(f"{WHERE}: --{one} and --{other} exclude each other", "keep one of them")


def _names(asked: Srun, file: str) -> list[str]:
    """The names in a file of nodes; none where it must be asked for first."""
    if file in asked.files:
        return names_in(asked.files[file], file)
    asked.needs = file
    return []


def _count_by_gpus(ask: dict[str, Any]) -> None:
    """--ntasks-per-gpu binds each task to its GPU, and says how many GPUs where tasks alone are named. Raises UserError."""
    each, tasks = ask.get("tasks_per_gpu"), ask.get("tasks")
    if each is None:
        return
    ask.setdefault("gpu_bind", f"single:{each}")
    if tasks is not None and "gpus" not in ask:
        if tasks % each:
            raise UserError(
                "-n/--ntasks has to be a multiple of --ntasks-per-gpu", f"write -n {tasks // each * each}"
            )
        ask["gpus"] = {"total": tasks // each}


def _by_variables(environ: Mapping[str, str], *, inside: bool) -> Options:
    """Inside a job most of srun's variables tell of the job itself, and those of a step alone are options."""
    if not inside:
        known = [pair for pair in SRUN_VARIABLES if pair[1] in SRUN.options or pair[1].startswith("switch-")]
        return override((), environ, known, known=SRUN)
    given = ((option, environ.get(variable, ""), variable) for variable, option in _VARIABLES.items())
    return [one for one in given if one[1] and not (SRUN.options[one[0]].takes == NONE and one[1] == "0")]


class Salloc(msgspec.Struct, kw_only=True):
    """salloc's command line: what the allocation is asked for, and the command that holds it."""

    options: Options
    others: list[Options]
    """Of further components."""
    command: list[str]
    has_shell: bool = True
    immediate_s: float | None = None
    """As Srun's."""
    kill_signal: int = 0
    """What its command is sent when the allocation is taken away; 0: nothing."""
    bell: str = ""
    """When the terminal's bell rings: always, never, else after a long wait."""
    quiet: bool = False
    chdir: str = ""


def parse_salloc(
    words: list[str], environ: Mapping[str, str], *, plugins: Mapping[str, str] = NO_PLUGINS
) -> Salloc:
    """`plugins` as for srun. The variables SALLOC_* are options, too, and yield to those of the words. Raises UserError."""
    parts, command = parse_components(words, "salloc", with_plugins(SALLOC, plugins) if plugins else SALLOC)
    asked: list[Options] = []
    given = Options()
    for part in parts:
        lasting = [one for one in given if not SALLOC.options[one[0]].each]
        own = [(name, value, "salloc") for name, value in part if name in SALLOC.options]
        given = [*override(lasting, environ, SALLOC_VARIABLES, known=SALLOC), *own]
        asked.append([one for one in given if SALLOC.options[one[0]].here != COMMAND])
    last = {name: value for name, value, _ in given}
    return Salloc(
        options=asked[0],
        others=asked[1:],
        command=command,
        has_shell="no-shell" not in last,
        immediate_s=_patience(last["immediate"]) if "immediate" in last else None,
        kill_signal=parse_signal(last["kill-command"] or "TERM") if "kill-command" in last else 0,
        bell="never" if "no-bell" in last else "always" if "bell" in last else "",
        quiet="quiet" in last,
        chdir=last.get("chdir", ""),
    )


def _apply(asked: Srun, option: str, value: str, where: str) -> None:
    if option in CONTAINER_OPTIONS:
        CONTAINER_OPTIONS[option](asked.ask.setdefault("container", {}), value)
        return
    if option in CLUSTER_OPTIONS and not other_cluster(value):
        return
    if (answer := help_of(option, value)) is not None:
        asked.told, asked.told_code = answer
        return
    if SRUN.options[option].here == REFUSED:
        raise unsupported(option, where)
    try:
        act = _ACTS.get(option)
        if act is not None:
            act(asked, value)
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint) from None
    asked.passed_over |= SRUN.options[option].here == NOTED
    if option in _OF_JOBS:
        asked.job_options.append((option, value, where))


def _count(text: str, option: str, least: int = 1) -> int:
    if not _COUNT.fullmatch(text) or int(text) < least:
        raise UserError(f"--{option}={text} is no whole number from {least} on", "write a number")
    return int(text)


def _number(field: str, option: str, least: int = 1) -> Callable[[Srun, str], None]:
    def act(asked: Srun, value: str) -> None:
        asked.ask[field] = _count(value, option, least)

    return act


def _memory(field: str) -> Callable[[Srun, str], None]:
    amounts = dict.fromkeys(["mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes"])
    return lambda asked, value: asked.ask.update({**amounts, field: parse_memory(value)})


def _flag(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: asked.ask.update({field: True})


def _stream(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: setattr(asked.streams, field, value)


def _stream_flag(field: str) -> Callable[[Srun, str], None]:
    return lambda asked, value: setattr(asked.streams, field, True)


def _nodes(asked: Srun, value: str) -> None:
    low, dash, high = value.partition("-")
    least = _count(low, "nodes")
    most = _count(high, "nodes") if dash else least
    if most < least:
        raise UserError(f"--nodes={value} is no range", "write MIN-MAX")
    asked.ask |= {"nodes_min": least, "nodes_max": most}


def _gpus(option: str) -> Callable[[Srun, str], None]:
    def act(asked: Srun, value: str) -> None:
        found = parse_gres(value) if option == "gres" else parse_gpus(value, option)
        if "share_pct" in found or "shards" in found:
            found = {}  # the part is the job's; its tasks share it
        asked.ask["gpus"] = found or {"total": 0}

    return act


def _gpu_bind(asked: Srun, value: str) -> None:
    asked.ask["gpu_bind"] = parse_gpu_bind(value)


def _cpu_bind(asked: Srun, value: str) -> None:
    words = [word for word in value.split(",") if word not in ("quiet", "q", "verbose", "v", "")]
    kind = ",".join(words)
    plain = ("none", "no", "cores", "threads", "rank", "sockets", "ldoms", "boards")
    if (
        kind
        and kind not in plain
        and not re.fullmatch(r"(map_cpu:\d+(,\d+)*|mask_cpu:(0x)?[0-9a-fA-F]+(,(0x)?[0-9a-fA-F]+)*)", kind)
    ):
        raise UserError(
            f"--cpu-bind={value} is not understood",
            "write none, cores, rank, map_cpu:0,1 or mask_cpu:0x3,0xc",
        )
    asked.ask["cpu_bind"] = kind
    said = [word[0] for word in value.split(",") if word in ("quiet", "q", "verbose", "v")]
    asked.ask["bind_verbose"] = said[-1:] == ["v"]


def _kill_on_bad_exit(asked: Srun, value: str) -> None:
    if value not in ("", "0", "1"):
        raise UserError(f"--kill-on-bad-exit={value} is not understood", "write 0 or 1")
    asked.ask["kill_on_bad_exit"] = value != "0"


def _exclusive(asked: Srun, value: str) -> None:
    """Of a step: what it asks for is its own, as --exact; of a job it goes to the request as well."""
    asked.ask["exact"] = True


def _immediate(asked: Srun, value: str) -> None:
    asked.immediate_s = _patience(value)
    asked.ask["immediate"] = asked.immediate_s is not None


def _patience(value: str) -> float | None:
    """The seconds of --immediate; 0 is none."""
    return float(_count(value or "1", "immediate", 0)) or None


def _mpi(asked: Srun, value: str) -> None:
    """Tasks that were not told of each other would each be a rank 0, and nobody would notice: so others are refused."""
    if value == "list":
        asked.told = MPI_LIST
    elif value in MPI_TYPES:
        asked.ask["mpi"] = MPI_TYPES[value]
    else:
        raise UserError(
            f"--mpi={value} is not supported",
            "write pmi2 for MPICH and its kin; Open MPI programs are started by mpirun, which finds the job's nodes itself",
        )


def _program(value: str, option: str) -> str:
    if not value.startswith("/"):
        raise UserError(f"--{option}={value} is no absolute path", "write where it is on the nodes")
    return value


def _open_mode(asked: Srun, value: str) -> None:
    if value not in ("append", "truncate", "a", "t"):
        raise UserError(f"--open-mode={value} is not understood", "write append or truncate")
    asked.streams.append = value.startswith("a")


_ACTS: dict[str, Callable[[Srun, str], object]] = {
    "chdir": lambda asked, value: asked.ask.update(chdir=value),
    "cpu-bind": _cpu_bind,
    "cpu_bind": _cpu_bind,
    "cpus-per-task": _number("cpus_per_task", "cpus-per-task"),
    "distribution": lambda asked, value: asked.ask.update(parse_distribution(value, asked.environ)),
    "error": _stream("error"),
    "exact": _flag("exact"),
    "exclude": lambda asked, value: asked.ask.update(exclude=expand(value)),
    "exclusive": _exclusive,
    "export": lambda asked, value: setattr(asked, "export", value),
    "gpu-bind": _gpu_bind,
    "gpus": _gpus("gpus"),
    "gpus-per-node": _gpus("gpus-per-node"),
    "gpus-per-task": _gpus("gpus-per-task"),
    "gres": _gpus("gres"),
    "immediate": _immediate,
    "input": _stream("input"),
    "job-name": lambda asked, value: asked.ask.update(name=value),
    "het-group": lambda asked, value: setattr(asked, "groups", parse_groups(value)),
    "jobid": lambda asked, value: setattr(asked, "job", value),
    "kill-on-bad-exit": _kill_on_bad_exit,
    "label": _stream_flag("label"),
    "mem": _memory("mem_per_node_bytes"),
    "mem-per-cpu": _memory("mem_per_cpu_bytes"),
    "mem-per-gpu": _memory("mem_per_gpu_bytes"),
    "mpi": _mpi,
    "nodelist": lambda asked, value: asked.ask.update(nodelist=expand(value)),
    "nodes": _nodes,
    "ntasks": _number("tasks", "ntasks"),
    "ntasks-per-gpu": _number("tasks_per_gpu", "ntasks-per-gpu"),
    "ntasks-per-node": _number("tasks_per_node", "ntasks-per-node"),
    "open-mode": _open_mode,
    "output": _stream("output"),
    "overcommit": _flag("overcommit"),
    "overlap": _flag("overlap"),
    "pack-group": lambda asked, value: setattr(asked, "groups", parse_groups(value)),
    "pty": _flag("pty"),
    "quiet": _stream_flag("quiet"),
    "quit-on-interrupt": _stream_flag("quits_on_interrupt"),
    "relative": _number("relative", "relative", 0),
    "task-epilog": lambda asked, value: asked.ask.update(task_epilog=_program(value, "task-epilog")),
    "task-prolog": lambda asked, value: asked.ask.update(task_prolog=_program(value, "task-prolog")),
    "tasks-per-node": _number("tasks_per_node", "tasks-per-node"),
    "propagate": lambda asked, value: asked.ask.update(
        limits=propagated(value, asked.files.get(LIMITS_FILE, ""))
    ),
    "tres-per-task": lambda asked, value: asked.ask.update(parse_tres_per_task(value)),
    "time": lambda asked, value: asked.ask.update(time_limit_s=parse_limit(value)),
    "wait": _number("wait_s", "wait", 0),
    "help": lambda asked, value: setattr(asked, "told", HELP),
    "usage": lambda asked, value: setattr(asked, "told", HELP),
    "version": lambda asked, value: setattr(asked, "told", VERSION),
}
