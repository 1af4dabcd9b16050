"""Converts options into a request: a dictionary in the JSON form of `model.Request`, with notes on ignored
options.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS, other_cluster
from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.option_fields import OptionSource, OptionText
from warpdeck.notation.option_values.table import row, told_of
from warpdeck.notation.options.options import COMMAND, NOTED, REFUSED, SBATCH, OptionTable
from warpdeck.notation.options.submit_files import (
    LIMITS_FILE,
    Reader,
    propagated,
    variables_of_file,
    with_hosts,
)
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.options.variables import outrank_memory
from warpdeck.notation.values.containers import check_container
from warpdeck.notation.values.exports import exported, is_all, left_out
from warpdeck.notation.values.signals import spans_reservation

from .node_counts import fit_nodes, fit_tasks_to_gpus, join_gpus

OF_LOGIN = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER")
"""Variables that a job keeps from its submitter even with --export-file, because a shell needs them."""
_HOSTLISTS = frozenset({"exclude", "nodelist"})

Options = list[tuple[str, str, str]]
"""(option, value, where it was given); later ones win."""


def build_request(
    options: Options,
    environ: Mapping[str, str],
    *,
    now: float,
    known: OptionTable = SBATCH,
    read: Reader | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return (fields that the options determine, notes).

    For `read`, see `submitfiles`. Raises UserError, which names the option and where it was given.
    """
    request: dict[str, Any] = {"resources": {"gpus": {}}}
    notes: list[str] = []
    source = OptionSource(cwd="", environ=environ, now=now)
    apart = {"export": ("ALL", ""), "export-file": ("", ""), "propagate": ("ALL", "")}
    for option, value, where in with_hosts(_last_hosts(outrank_memory(options)), environ, read):
        here = known.options[option].here if option in known.options else REFUSED
        if option in CLUSTER_OPTIONS and not other_cluster(value):
            continue
        if told := told_of(option, value):
            request.setdefault("step_variables", {}).update(told)
        if here == NOTED:
            notes.append(f"{where}: --{option} has no effect here")
        elif here == REFUSED:
            raise unsupported(option, where)
        elif here == COMMAND:
            continue
        elif option in apart:
            apart[option] = (value, where)
        elif (effect := row(option).job) is not None:
            with _told_at(where, option if option in ("array", "dependency") else ""):
                effect.apply(request, OptionText(option, value, source))
    _set_environment(request, apart["export"], apart["export-file"], environ, known=known, read=read)
    value, where = apart["propagate"]
    with _told_at(where):
        if limits := _limits(value, read):
            request["limits"] = limits
    notes += [f"{where}: {words}" for option, value, where in options for words in _remark(option, value)]
    _check_memory(request["resources"])
    _check_times(request)
    _check_partition(request)
    check_container(request.get("container"))
    join_gpus(request["resources"])
    fit_tasks_to_gpus(request["resources"])
    notes += fit_nodes(request["resources"], cuts=known.command == "srun")
    return request, notes


def _set_environment(
    request: dict[str, Any],
    of_export: tuple[str, str],
    of_file: tuple[str, str],
    environ: Mapping[str, str],
    *,
    known: OptionTable,
    read: Reader | None,
) -> None:
    """Set the variables of --export and --export-file. Both are pairs of a value and the place where it was given."""
    (export, export_where), (name, where) = of_export, of_file
    request["env"] = exported(export, environ)
    if not is_all(export):
        request.setdefault("step_variables", {})["SLURM_EXPORT_ENV"] = export
        request["user_env"] = request.get("user_env", False) or known.command == "sbatch"
    if request.get("user_env"):
        request.setdefault("step_variables", {})["SLURM_GET_USER_ENV"] = "1"
    if name:
        own = request["env"]
        if (
            not export_where
        ):  # As in Slurm, these replace the submitter's variables unless --export asks for them.
            own = {each: text for each, text in own.items() if each in OF_LOGIN}
        request["env"] = own | variables_of_file(name, where, read)


def _last_hosts(options: Options) -> Options:
    """Return the options without node lists that later ones replace, because each list may stand for very
    many nodes.
    """
    last = {option: at for at, (option, _, _) in enumerate(options) if option in _HOSTLISTS}
    return [one for at, one in enumerate(options) if last.get(one[0], at) == at]


def _limits(value: str, read: Reader | None) -> dict[str, int]:
    """Return the limits to propagate. If the submitter's limits cannot be read (on another system), the
    node's limits apply.
    """
    try:
        text = "" if read is None else read(LIMITS_FILE)
    except OSError:
        text = ""
    return propagated(value, text)


@contextlib.contextmanager
def _told_at(where: str, code: str = "") -> Iterator[None]:
    """Prefix errors with the place of the option. `code` is the kind of error if the error has none."""
    try:
        yield
    except UserError as error:
        prefix = f"{where}: " if where else ""
        raise UserError(f"{prefix}{error.message}", error.hint, code=error.code or code) from None


def _remark(option: str, value: str) -> list[str]:
    """Return remarks about options that do less here than their values say."""
    if option == "exclusive" and value.lower() == "mcs":
        return ["--exclusive=mcs: no job has an MCS label here, so anybody's job may run beside it"]
    if option == "signal" and spans_reservation(value):
        return [
            f"--signal={value}: R: has no effect, a job that would run into a reservation starts after it"
        ]
    if option == "export" and (names := left_out(value)):
        return [f"--export: {name[:80]!r} is no variable name, and is left out" for name in names]
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
