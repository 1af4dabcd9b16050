"""Checks the command lines of srun and salloc and shows the value of each option. They follow sbatch's rules
plus their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.notation.option_values.bindings import cpu_bind
from warpdeck.notation.option_values.option_fields import ENVIRONMENT, LINE, Fields, OptionSource
from warpdeck.notation.options.options import OptionTable
from warpdeck.notation.options.variables import SALLOC_VARIABLES, SRUN_VARIABLES
from warpdeck.notation.values.refusal import VALUE_EXIT, Refusal

from .checks import check
from .reading import Reading, exit_of
from .verdict import Fault, Verdict, check_clusters, check_rest, shown


def judge_launch(words: Sequence[str], place: OptionSource, *, known: OptionTable) -> Verdict:
    """Check a command line. Nothing is raised; errors are in the verdict.

    `words` are the words after the command's name. `known` is SRUN_22_05 or SALLOC_22_05.
    """
    verdict = Verdict([], [], None)
    is_srun = known.command == "srun"
    fields = Fields()
    fields.is_srun = is_srun
    reading = Reading(fields, place, known=known, is_launch=True)
    verdict.given.append(reading.given)
    try:
        reading.variables(SRUN_VARIABLES if is_srun else SALLOC_VARIABLES)
        reading.words(words, [0] * len(words))
        if fields.texts.get("x11", "unset") != "unset" and "DISPLAY" not in place.environ:
            words = "No DISPLAY variable set, cannot setup x11 forwarding."
            raise Refusal(words, "take it out", exit_code=VALUE_EXIT)
        if reading.early >= {"quiet", "verbose"}:
            raise Refusal("don't specify both --verbose (-v) and --quiet (-Q)", "keep one of them")
        if is_srun:
            _check_srun(fields)
        check(fields, place)
        if is_srun and fields.ntasks <= 0:
            raise Refusal(f"invalid number of tasks (-n {fields.ntasks})", "name the nodes with -w")
        if is_srun and "pty" in fields.texts and fields.texts.keys() & {"error", "input", "output"}:
            raise Refusal("--error/--input/--output are incompatible with --pty", "take them out")
        verdict.shown.append(shown(fields, known))
        if not (is_srun and _is_inside(fields, place)):
            _check_allocation(fields, place)
    except Refusal as error:
        return verdict._replace(
            fault=Fault(error.lines, 0, error.hint, exit_of(error, place), error.is_answer)
        )
    return verdict


def _is_inside(fields: Fields, place: OptionSource) -> bool:
    """Return whether there is already an allocation, so that its resources are not requested again."""
    return "jobid" in fields.texts or "SLURM_JOB_ID" in place.environ


def _check_srun(fields: Fields) -> None:
    """Check conflicts between srun's own options. Raises Refusal."""
    texts = fields.texts
    if "cpu-bind" in texts:
        try:
            texts["cpu-bind"] = cpu_bind(texts["cpu-bind"])
        except Refusal as error:
            words = "Failed to parse --cpu-bind= values."
            raise Refusal(words, error.hint, level="fatal", more=tuple(error.lines)) from None
    if "no-allocate" in texts:
        if not texts.keys() & {"nodelist", "nodefile"}:
            raise Refusal("must specify a node list with -Z, --no-allocate.", "name the nodes with -w")
        if "exclude" in texts:
            raise Refusal("can not specify --exclude list with -Z, --no-allocate.", "take -x out")
        if "relative" in texts:
            raise Refusal("do not specify -r,--relative with -Z,--no-allocate.", "take -r out")
    if "exact" in texts and "whole" in texts:
        raise Refusal("--exact and --whole are mutually exclusive.", "keep one of them")
    if fields.by("overlap", LINE) and fields.by("exclusive", LINE):
        raise Refusal("--exclusive and --overlap are mutually exclusive", "keep one of them")
    if fields.by("overlap", ENVIRONMENT) and fields.by("exclusive", LINE) and fields.shared == "exclusive":
        texts["overlap"] = "unset"


def _check_allocation(fields: Fields, place: OptionSource) -> None:
    """Check rules that apply only to a new allocation. Raises Refusal."""
    if "relative" in fields.texts:
        raise Refusal(
            "--relative option invalid for job allocation request", "use it inside of a job", level="fatal"
        )
    check_rest(fields, place)
    check_clusters(fields)
