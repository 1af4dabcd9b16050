"""Validates the command lines of srun and salloc and shows the value of each option. They follow sbatch's rules
plus their own.
"""

from __future__ import annotations

from warpdeck.notation.option_values.bindings import cpu_bind
from warpdeck.notation.option_values.slurm_options import ENVIRONMENT, LINE, SlurmOptions
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import OptionTable
from warpdeck.notation.options.variables import SRUN_VARIABLES
from warpdeck.notation.reading.components import Component
from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

from .checks import check
from .result import OptionKeeper, ValidationResult, check_clusters, check_rest, rejection

_SRUN_NAMES = frozenset(name for name, _ in SRUN_VARIABLES)


def validate_component(component: Component, source: OptionSource, *, known: OptionTable) -> ValidationResult:
    """Validate the options of a command line. Nothing is raised; errors are in the result.

    `known` is SRUN_22_05 or SALLOC_22_05, with the options of a site's plugins.
    """
    is_srun = known.command == "srun"
    keeper = OptionKeeper(known)
    options = keeper.options
    options.is_srun = is_srun
    result = ValidationResult([], [keeper.given], None)
    try:
        keeper.keep(each for each in component.variables if not is_srun or each.where in _SRUN_NAMES)
        keeper.keep(component.words)
        if options.values.get("x11", "unset") != "unset" and "DISPLAY" not in source.environ:
            message = "No DISPLAY variable set, cannot setup x11 forwarding."
            raise SlurmError(message, "leave the option out", exit_code=VALUE_EXIT)
        if keeper.early >= {"quiet", "verbose"}:
            raise SlurmError("don't specify both --verbose (-v) and --quiet (-Q)", "keep one of them")
        if is_srun:
            _check_srun(options)
        check(options, source)
        if is_srun and options.ntasks <= 0:
            raise SlurmError(f"invalid number of tasks (-n {options.ntasks})", "name the nodes with -w")
        if is_srun and "pty" in options.values and options.values.keys() & {"error", "input", "output"}:
            raise SlurmError("--error/--input/--output are incompatible with --pty", "leave them out")
        result.shown.append(keeper.shown())
        if not (is_srun and _is_inside(options, source)):
            _check_allocation(options, source)
    except SlurmError as error:
        return result._replace(rejection=rejection(error, source))
    return result


def _is_inside(options: SlurmOptions, source: OptionSource) -> bool:
    """Return whether there is already an allocation, so that its resources are not requested again."""
    return "jobid" in options.values or "SLURM_JOB_ID" in source.environ


def _check_srun(options: SlurmOptions) -> None:
    """Check conflicts between srun's own options. Raises SlurmError."""
    values = options.values
    if "cpu-bind" in values:
        try:
            values["cpu-bind"] = cpu_bind(values["cpu-bind"]).shown
        except SlurmError as error:
            words = "Failed to parse --cpu-bind= values."
            raise SlurmError(words, error.hint, level="fatal", more=tuple(error.lines)) from None
    if "no-allocate" in values:
        if not values.keys() & {"nodelist", "nodefile"}:
            raise SlurmError("must specify a node list with -Z, --no-allocate.", "name the nodes with -w")
        if "exclude" in values:
            raise SlurmError("can not specify --exclude list with -Z, --no-allocate.", "leave -x out")
        if "relative" in values:
            raise SlurmError("do not specify -r,--relative with -Z,--no-allocate.", "leave -r out")
    if "exact" in values and "whole" in values:
        raise SlurmError("--exact and --whole are mutually exclusive.", "keep one of them")
    if options.by("overlap", LINE) and options.by("exclusive", LINE):
        raise SlurmError("--exclusive and --overlap are mutually exclusive", "keep one of them")
    if options.by("overlap", ENVIRONMENT) and options.by("exclusive", LINE) and options.shared == "exclusive":
        values["overlap"] = "unset"


def _check_allocation(options: SlurmOptions, source: OptionSource) -> None:
    """Check rules that apply only to a new allocation. Raises SlurmError."""
    if "relative" in options.values:
        raise SlurmError(
            "--relative option invalid for job allocation request", "use it inside of a job", level="fatal"
        )
    check_rest(options, source)
    check_clusters(options)
