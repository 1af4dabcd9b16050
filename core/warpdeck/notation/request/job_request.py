"""Turns options into a request: a dictionary in the JSON form of `model.Request`, with notes on ignored options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.value_table import process_variables, row, with_values
from warpdeck.notation.options.getopt import error_at, raise_error_of
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import COMMAND, NOTED, REFUSED, SBATCH, OptionTable
from warpdeck.notation.options.submit_files import (
    LIMITS_FILE,
    FileReader,
    propagated,
    variables_of_file,
)
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.options.variables import effective
from warpdeck.notation.values.containers import check_container
from warpdeck.notation.values.exports import exported, invalid_names, is_all

from .host_files import with_hosts
from .node_counts import fit_nodes, fit_tasks_to_gpus, join_gpus

LOGIN_VARIABLES = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")
"""Variables that a job keeps from its submitter even with --export-file, because a shell needs them."""
_HOSTLISTS = frozenset({"exclude", "nodelist"})
_ENVIRONMENT = ("export", "export-file", "propagate")
"""Options about the environment of the job, which are applied after all others."""


def parse_request(
    options: Iterable[GivenOption],
    environ: Mapping[str, str],
    *,
    now: float,
    known: OptionTable = SBATCH,
    read: FileReader | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Read the values of the options and return the same as `build_request`. Raises UserError."""
    source = OptionSource(cwd="", environ=environ, now=now)
    return build_request(with_values(options, source, known), environ, known=known, read=read)


def build_request(
    options: Options,
    environ: Mapping[str, str],
    *,
    known: OptionTable = SBATCH,
    read: FileReader | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return (the fields that the options determine, notes about options without effect).

    The options have values. `read` reads the files that options name; None means that files cannot be read here.
    Raises UserError, which names the option and where it was given.
    """
    request: dict[str, Any] = {"resources": {"gpus": {}}}
    notes: list[str] = []
    raise_error_of(given for given in options if not given.option)
    options = effective(options)
    environment = {option: GivenOption(option) for option in _ENVIRONMENT}
    for given in with_hosts(_last_hosts(options), environ, read):
        if given.option in environment:
            environment[given.option] = given
        else:
            notes += _apply(request, given, known)
    _set_environment(request, environment, environ, known=known, read=read)
    notes += [f"{given.where}: {words}" for given in options for words in _remark(given)]
    _check_memory(request["resources"])
    _check_times(request)
    _check_partition(request)
    check_container(request.get("container"))
    join_gpus(request["resources"])
    fit_tasks_to_gpus(request["resources"])
    notes += fit_nodes(request["resources"], drops_names=known.command == "srun")
    return request, notes


def _apply(request: dict[str, Any], given: GivenOption, known: OptionTable) -> list[str]:
    """Set the fields of one option and return notes about it. Raises UserError."""
    syntax = known.options.get("switches" if given.option.startswith("switch-") else given.option)
    here = syntax.here if syntax is not None else REFUSED
    if here == COMMAND or (given.option in CLUSTER_OPTIONS and not other_cluster(given.word)):
        return []
    if variables := process_variables(given):
        request.setdefault("step_variables", {}).update(variables)
    if here == NOTED:
        return [f"{given.where}: --{given.option} has no effect here"]
    if here == REFUSED:
        raise unsupported(given.option, given.where)
    effect = row(given.option).job
    if effect is not None:
        with _errors_at(given):
            effect.apply(request, given)
    return []


def _set_environment(
    request: dict[str, Any],
    options: Mapping[str, GivenOption],
    environ: Mapping[str, str],
    *,
    known: OptionTable,
    read: FileReader | None,
) -> None:
    """Set the job's variables from --export and --export-file, and its limits from --propagate."""
    export, file, limits = (options[option] for option in _ENVIRONMENT)
    text = "ALL" if export.text is None else export.text
    request["env"] = exported(text, environ)
    if not is_all(text):
        request.setdefault("step_variables", {})["SLURM_EXPORT_ENV"] = text
        request["user_env"] = request.get("user_env", False) or known.command == "sbatch"
    if request.get("user_env"):
        request.setdefault("step_variables", {})["SLURM_GET_USER_ENV"] = "1"
    if file.word:
        own = request["env"]
        if export.text is None:
            # As in Slurm, these replace the submitter's variables unless --export asks for them.
            own = {each: text for each, text in own.items() if each in LOGIN_VARIABLES}
        request["env"] = own | variables_of_file(file.word, file.where, read)
    with _errors_at(limits):
        if found := _limits(limits.word, read):
            request["limits"] = found


def _last_hosts(options: Options) -> Options:
    """Return the options without node lists that later ones replace, because each list may stand for very
    many nodes.
    """
    last = {given.option: at for at, given in enumerate(options) if given.option in _HOSTLISTS}
    return [given for at, given in enumerate(options) if last.get(given.option, at) == at]


def _limits(value: str, read: FileReader | None) -> dict[str, int]:
    """Return the limits to propagate. If the submitter's limits cannot be read (on another system), the
    node's limits apply.
    """
    try:
        text = "" if read is None else read(LIMITS_FILE)
    except OSError:
        text = ""
    return propagated(value, text)


@contextlib.contextmanager
def _errors_at(given: GivenOption) -> Iterator[None]:
    """Add the place of the option to errors. Errors about arrays and dependencies have the option as their code."""
    try:
        yield
    except UserError as error:
        found = error_at(given, error)
        found.code = error.code or (given.option if given.option in ("array", "dependency") else "")
        raise found from None


def _remark(given: GivenOption) -> list[str]:
    """Return remarks about options that do less here than their values say."""
    if given.option == "exclusive" and given.value == "mcs":
        return ["--exclusive=mcs: no job has an MCS label here, so any user's job may run beside it"]
    if given.option == "signal" and given.value is not None and given.value.over_reservation:
        words = "R: has no effect, a job that would run into a reservation starts after it"
        return [f"--signal={given.word}: {words}"]
    if given.option == "export":
        return [
            f"--export: {name[:80]!r} is not a variable name and is ignored"
            for name in invalid_names(given.word)
        ]
    return []


def _check_memory(resources: dict[str, Any]) -> None:
    given = [
        name for name in ("mem_per_node_bytes", "mem_per_cpu_bytes", "mem_per_gpu_bytes") if name in resources
    ]
    if len(given) > 1:
        raise UserError("--mem, --mem-per-cpu and --mem-per-gpu exclude each other", "keep one of them")
    if resources.get("mem_per_cpu_bytes") == 0:  # A value of 0 means all memory of a node, as with --mem=0.
        resources["mem_per_node_bytes"] = resources.pop("mem_per_cpu_bytes")


def _check_times(request: dict[str, Any]) -> None:
    least_s, limit_s = request.get("time_min_s"), request.get("time_limit_s")
    if least_s is not None and limit_s is not None and least_s > limit_s:
        raise UserError(
            "--time-min is more than --time", "write a --time-min that is shorter", code="time_min"
        )


def _check_partition(request: dict[str, Any]) -> None:
    """Reject an empty --partition. A script's --partition="$PART" with an empty variable does not ask for the
    default partition.
    """
    if not request.get("partition", "-").strip(","):
        raise UserError(
            "--partition is given without a name",
            "name one, or leave it out for the default one",
            code="PartitionConfig",
            details={"unknown": "(null)"},
        )
