"""Reads whole command lines of sbatch, srun and salloc, as their servers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.notation.options.directives import script_error
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import NO_PLUGINS, SBATCH_22_05, OptionTable
from warpdeck.notation.options.variables import SALLOC_VARIABLES, SRUN_VARIABLES
from warpdeck.notation.reading.components import read_launch
from warpdeck.notation.reading.script import read_components
from warpdeck.notation.step.salloc_line import SallocOptions, read_salloc, salloc_options
from warpdeck.notation.step.srun_line import read_srun, srun_options
from warpdeck.notation.step.step_options import SrunOptions
from warpdeck.notation.validation.launch import validate_component
from warpdeck.notation.validation.result import ValidationResult, rejection
from warpdeck.notation.validation.script import validate_components


def parse_srun(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    files: Mapping[str, str],
    plugins: Mapping[str, str] = NO_PLUGINS,
) -> SrunOptions:
    """Return the step of srun's command line. Raises UserError."""
    source = OptionSource(cwd="", environ=environ, now=0.0)
    return srun_options(read_srun(words, source, plugins=plugins), environ, files=files)


def parse_salloc(
    words: Sequence[str], environ: Mapping[str, str], *, plugins: Mapping[str, str] = NO_PLUGINS
) -> SallocOptions:
    """Return the allocation of salloc's command line. Raises UserError."""
    source = OptionSource(cwd="", environ=environ, now=0.0)
    return salloc_options(read_salloc(words, source, plugins=plugins))


def validate_script(
    text: str,
    source: OptionSource,
    *,
    words: Sequence[str] = (),
    others: Sequence[Sequence[str]] = (),
    known: OptionTable = SBATCH_22_05,
) -> ValidationResult:
    """Return what Slurm's sbatch says about the script job.sh with the options `words`."""
    error = script_error(text, "job.sh")
    if error is not None:
        return ValidationResult([], [], rejection(error, source))
    components = read_components(text, "job.sh", source, words=words, others=others, known=known)
    return validate_components(components, source, known=known)


def validate_launch(words: Sequence[str], source: OptionSource, *, known: OptionTable) -> ValidationResult:
    """Return what Slurm's srun or salloc says about a command line."""
    variables = SRUN_VARIABLES if known.command == "srun" else SALLOC_VARIABLES
    line = read_launch(words, source, known, variables)
    return validate_component(line.components[0], source, known=known)
