"""srun's command line: options up to the command, and the variables that set options. All uses of srun share
this parser.

Options become a step (`model.StepAsk`, in its JSON form) and settings of the streams (`Streams`). Options
that describe an allocation go into the request of a new job if there is no allocation yet; inside of one they
are ignored, as in Slurm. Later options win, and all of them override variables. Unsupported options are
rejected with an error that names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.option_values.bind_help import help_of
from warpdeck.notation.option_values.option_fields import OptionSource, OptionText
from warpdeck.notation.option_values.table import row
from warpdeck.notation.options.getopt import parse_leading
from warpdeck.notation.options.options import (
    HONOURED,
    NO_PLUGINS,
    NONE,
    NOTED,
    REFUSED,
    SBATCH,
    SRUN,
    with_plugins,
)
from warpdeck.notation.options.submit_files import LIMITS_FILE, propagated
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.options.variables import SRUN_VARIABLES, override
from warpdeck.notation.request.request import Options
from warpdeck.notation.values.containers import OPTIONS as CONTAINER_OPTIONS
from warpdeck.notation.values.containers import check_container
from warpdeck.notation.values.exports import exported
from warpdeck.notation.values.hostlist import names_in

from .multiprog import parse_programs
from .srun_help import HELP
from .step_arguments import told_of_step
from .step_options import Srun, Streams

WHERE = "srun"
_TEXTS = {"help": HELP, "usage": HELP, "version": VERSION}
"""Options that print a text instead of running a step."""
_STREAMS_ONLY = frozenset(
    {"output", "error", "input", "export", "open-mode", "chdir", "gpu-bind", "propagate"}
)
"""Options that apply only to srun's step, not to a job that is created for it."""
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
"""Variables that set options inside a job. The job's own variables (SLURM_NTASKS ...) are not read, because
the controller knows their values better.
"""


def parse_srun(
    words: list[str],
    environ: Mapping[str, str],
    *,
    files: Mapping[str, str],
    plugins: Mapping[str, str] = NO_PLUGINS,
) -> Srun:
    """Parse the command line. Raises UserError.

    `files` holds the contents of files that were requested before (`Srun.needs`), and of LIMITS_FILE.
    `plugins` are the options of a site's plugins, which have no effect here.
    """
    options, command = parse_leading(words, WHERE, with_plugins(SRUN, plugins) if plugins else SRUN)
    options = [one for one in options if one[0] in SRUN.options]
    _check_pairs({name for name, _ in options})
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    limits = propagated("ALL", files.get(LIMITS_FILE, ""))
    asked = Srun(ask={"limits": limits}, streams=Streams(), job=job, environ=environ, files=files)
    fields: dict[str, Any] = {"ask": asked.ask, "streams": {}}
    inside = bool(asked.job) or any(option == "jobid" for option, _ in options)
    set_by = _by_variables(environ, inside=inside)
    for option, value, variable in set_by:
        _apply(asked, fields, option, value, where=f"{WHERE}: {variable}")
    for option, value in options:
        if option == "nodefile" or (option in ("nodelist", "exclude") and "/" in value):
            names = _names(asked, value)
            option, value = "exclude" if option == "exclude" else "nodelist", ",".join(dict.fromkeys(names))
        _apply(asked, fields, option, value, where=WHERE)
    asked.streams = Streams(**fields.pop("streams"))
    for name, found in fields.items():
        setattr(asked, name, found)
    if (listed := environ.get("SLURM_HOSTFILE")) and "nodelist" not in asked.ask:
        asked.ask |= {"hosts": _names(asked, listed), "distribution": "arbitrary"}
    _count_by_gpus(asked.ask)
    asked.export = asked.export or environ.get("SRUN_EXPORT_ENV") or environ.get("SLURM_EXPORT_ENV", "")
    if asked.told:
        return asked
    if not command:
        raise UserError(
            "srun: fatal: No command given to execute.",
            "write: srun [OPTIONS] COMMAND...",
            exit_code=1,
            code=VERBATIM,
        )
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
    """Return the command lines of `srun A : B`."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            found.append([])
        else:
            found[-1].append(word)
    return found


def _check_pairs(given: set[str]) -> None:
    """Raise UserError for options that srun does not accept together."""
    for one, other in _APART:
        if one in given and other in given:
            raise UserError(f"{WHERE}: --{one} and --{other} exclude each other", "keep one of them")


def _names(asked: Srun, file: str) -> list[str]:
    """Return the names in a host file; [] if its content must be requested first."""
    if file in asked.files:
        return names_in(asked.files[file], file)
    asked.needs = file
    return []


def _count_by_gpus(ask: dict[str, Any]) -> None:
    """Apply --ntasks-per-gpu: bind each task to its GPU, and derive the number of GPUs if only tasks are
    given. Raises UserError.
    """
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
    """Return options from variables.

    Inside a job, most of srun's variables describe the job itself, and only those that concern a step count
    as options.
    """
    if not inside:
        known = [pair for pair in SRUN_VARIABLES if pair[1] in SRUN.options or pair[1].startswith("switch-")]
        return override((), environ, known, known=SRUN)
    given = ((option, environ.get(variable, ""), variable) for variable, option in _VARIABLES.items())
    return [one for one in given if one[1] and not (SRUN.options[one[0]].takes == NONE and one[1] == "0")]


def _apply(asked: Srun, fields: dict[str, Any], option: str, text: str, *, where: str) -> None:
    """Apply an option to the fields of `asked`, its step and its streams. Raises UserError."""
    known, effect = SRUN.options[option], row(option).step
    source = OptionSource(
        cwd="", environ=asked.environ, now=0, read_text=lambda name: asked.files.get(name, "")
    )
    if option in CONTAINER_OPTIONS and effect is not None:
        effect.apply(fields, OptionText(option, text, source))
        return
    if option in CLUSTER_OPTIONS and not other_cluster(text):
        return
    if (answer := help_of(option, text)) is not None:
        fields["told"], asked.told_code = answer
        return
    if known.here == REFUSED:
        raise unsupported(option, where)
    if option in _TEXTS:
        fields["told"] = _TEXTS[option]
    elif effect is not None:
        try:
            effect.apply(fields, OptionText(option, text, source))
        except UserError as error:
            raise UserError(f"{where}: {error.message}", error.hint) from None
    asked.passed_over |= known.here == NOTED
    if option in _OF_JOBS:
        asked.job_options.append((option, text, where))
