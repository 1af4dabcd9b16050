"""srun's command line: options up to the command, and the variables that set options. All uses of srun share
this parser.

Options become a step (`model.StepOptions`, in its JSON form) and settings of the streams (`Streams`). Options
that describe an allocation go into the request of a new job if there is no allocation yet; inside of one they
are ignored, as in Slurm. Later options win, and all of them override variables. Unsupported options are
rejected with an error that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.base.errors import VERBATIM, UserError
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.option_values.bind_help import help_of
from warpdeck.notation.option_values.value_table import row
from warpdeck.notation.options.getopt import error_at, raise_error_of
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import (
    HONORED,
    NO_PLUGINS,
    NOTED,
    REFUSED,
    SBATCH,
    SRUN,
    with_plugins,
)
from warpdeck.notation.options.submit_files import LIMITS_FILE, propagated
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.options.variables import SRUN_VARIABLES, STEP_VARIABLES
from warpdeck.notation.reading.components import LaunchLine, read_launch
from warpdeck.notation.request.host_files import ARBITRARY, names_file, with_names
from warpdeck.notation.values.containers import OPTIONS as CONTAINER_OPTIONS
from warpdeck.notation.values.containers import check_container
from warpdeck.notation.values.exports import exported
from warpdeck.notation.values.hostlist import names_in

from .multiprog import parse_programs
from .srun_help import HELP
from .step_options import SrunOptions, Streams
from .step_variables import step_variables

_TEXTS = {"help": HELP, "usage": HELP, "version": VERSION}
"""Options that print a text instead of running a step."""
_STREAMS_ONLY = frozenset(
    {"output", "error", "input", "export", "open-mode", "chdir", "gpu-bind", "propagate"}
)
"""Options that apply only to srun's step, not to a job that is created for it."""
_OF_JOBS = (
    {name for name, option in SBATCH.options.items() if option.here == HONORED}
    - _STREAMS_ONLY
    - CONTAINER_OPTIONS.keys()
)
_APART = (
    ("exact", "whole"),
    ("exclusive", "overlap"),
    ("pty", "error"),
    ("pty", "input"),
    ("pty", "output"),
    ("quiet", "verbose"),
)
_VARIABLES = tuple(dict.fromkeys((*SRUN_VARIABLES, *STEP_VARIABLES)))
_OUTSIDE, _INSIDE = (frozenset(name for name, _ in pairs) for pairs in (SRUN_VARIABLES, STEP_VARIABLES))


def read_srun(
    words: Sequence[str], source: OptionSource, *, plugins: Mapping[str, str] = NO_PLUGINS
) -> LaunchLine:
    """Read the command line. `plugins` are the options of a site's plugins, which have no effect here."""
    return read_launch(words, source, with_plugins(SRUN, plugins) if plugins else SRUN, _VARIABLES)


def srun_options(line: LaunchLine, environ: Mapping[str, str], *, files: Mapping[str, str]) -> SrunOptions:
    """Return the step that a command line describes. Raises UserError.

    `files` holds the contents of files that were requested before (`SrunOptions.needed_file`), and of LIMITS_FILE.
    """
    (component,) = line.components
    raise_error_of(given for given in component.words if not given.option)
    words = [given for given in component.words if given.option in SRUN.options]
    _check_pairs({given.option for given in words})
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    inside = bool(job) or any(given.option == "jobid" for given in words)
    options = [*_set_by_variables(component.variables, inside=inside), *words]
    found = SrunOptions(ask={"limits": _limits(options, files)}, streams=Streams(), job=job)
    fields: dict[str, Any] = {"ask": found.ask, "streams": {}}
    for given in options:
        named = with_names(given, _names(found, given.word, files)) if names_file(given) else given
        if not _is_answered(found, named):
            _apply(found, fields, named)
    found.streams = Streams(**fields.pop("streams"))
    for name, value in fields.items():
        setattr(found, name, value)
    if (listed := environ.get("SLURM_HOSTFILE")) and "nodelist" not in found.ask:
        found.ask |= {"hosts": _names(found, listed, files), "distribution": ARBITRARY}
    _count_by_gpus(found.ask)
    if found.answer:
        return found
    if not line.command:
        message = "srun: fatal: No command given to execute."
        raise UserError(message, "write: srun [OPTIONS] COMMAND...", exit_code=1, code=VERBATIM)
    _set_programs(found, line.command, files, is_file=any(each.option == "multi-prog" for each in options))
    check_container(found.ask.get("container"))
    found.ask.setdefault("name", (line.command[0].rsplit("/", 1)[-1])[:1024])
    export = found.export or environ.get("SRUN_EXPORT_ENV") or environ.get("SLURM_EXPORT_ENV", "")
    found.ask["env"] = exported(export or "ALL", environ) | step_variables(options)
    return found


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
            raise UserError(f"srun: --{one} and --{other} exclude each other", "keep one of them")


def _set_by_variables(variables: Options, *, inside: bool) -> Options:
    """Return the options from variables.

    Inside a job, most of srun's variables describe the job itself. Only those that concern a step count as options.
    An empty variable counts as if it were not set if its option needs a value.
    """
    names = _INSIDE if inside else _OUTSIDE
    return [
        given
        for given in variables
        if given.where in names
        and not given.is_off
        and (given.option in SRUN.options or given.option.startswith("switch-"))
        and not (inside and given.text == "")
    ]


def _limits(options: Iterable[GivenOption], files: Mapping[str, str]) -> dict[str, int]:
    """Return the limits of srun's own process that the step gets. Raises UserError."""
    given = next((each for each in reversed([*options]) if each.option == "propagate"), GivenOption(""))
    try:
        return propagated(given.word, files.get(LIMITS_FILE, ""))
    except UserError as error:
        raise error_at(given, error) from None


def _names(found: SrunOptions, file: str, files: Mapping[str, str]) -> list[str]:
    """Return the names in a host file; [] if its content must be requested first."""
    if file in files:
        return names_in(files[file], file)
    found.needed_file = file
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


def _set_programs(found: SrunOptions, command: list[str], files: Mapping[str, str], *, is_file: bool) -> None:
    """Set the program of the step. With `is_file` the command names a file of programs."""
    if not is_file:
        found.ask["argv"] = command
    elif command[0] in files:
        found.ask["programs"] = parse_programs(files[command[0]], command[0])
    else:
        found.needed_file = command[0]


def _is_answered(found: SrunOptions, given: GivenOption) -> bool:
    """Return whether the option only asks for a text, which is then set, or names this cluster."""
    if given.option in CLUSTER_OPTIONS:
        return not other_cluster(given.word)
    answer = help_of(given.option, given.word) or (_TEXTS.get(given.option, ""), 0)
    if answer[0]:
        found.answer, found.answer_code = answer
    return bool(answer[0])


def _apply(found: SrunOptions, fields: dict[str, Any], given: GivenOption) -> None:
    """Apply an option to the fields of `found`, its step and its streams. Raises UserError."""
    option = "switches" if given.option.startswith("switch-") else given.option
    here, effect = SRUN.options[option].here, row(option).step
    if here == REFUSED:
        raise unsupported(option, given.where)
    if effect is not None:
        try:
            effect.apply(fields, given)
        except UserError as error:
            raise error_at(given, error) from None
    found.has_ignored_options |= here == NOTED
    if option in _OF_JOBS:
        found.job_options.append(given)
