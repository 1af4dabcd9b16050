"""Predicts sbatch's result for a batch script: whether it is accepted, and the value of every option, by
component.

It behaves like sbatch of Slurm 22.05 with GPUs and shards. Where sbatch would stop, this stops too, and the
values shown until then remain.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.notation.option_values.value_table import begin_component
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import SBATCH_22_05, OptionTable
from warpdeck.notation.reading.components import Component
from warpdeck.notation.values.slurm_error import SlurmError

from .checks import check, complete_paths
from .result import OptionKeeper, ValidationResult, check_clusters, check_rest, rejection

_HINT = "SLURM_HINT"


def validate_components(
    components: Sequence[Component], source: OptionSource, *, known: OptionTable = SBATCH_22_05
) -> ValidationResult:
    """Validate the options of a script that were read. Options that `known` does not contain are rejected."""
    result = ValidationResult([], [], None)
    keeper = OptionKeeper(known)
    options = keeper.options
    hint: Options = []
    try:
        for number, component in enumerate(components):
            if number:
                begin_component(options)
            keeper.given = []
            result.given.append(keeper.given)
            keeper.keep(component.script)
            keeper.keep(_with_hint(component.variables, hint))
            keeper.keep(component.words)
            keeper.line = 0
            check(options, source)
            complete_paths(options, source)
            if "hint" in options.given:
                hint = [GivenOption("hint", options.hint, _HINT, is_variable=True, value=options.hint)]
            result.shown.append(keeper.shown())
            check_rest(options, source)
        check_clusters(options)
    except SlurmError as error:
        return result._replace(rejection=rejection(error, source, keeper.line))
    return result


def _with_hint(variables: Options, hint: Options) -> Options:
    """Return the variables with the hint of an earlier component, which sbatch stores as a variable."""
    return [*hint, *(each for each in variables if each.where != _HINT)] if hint else variables
