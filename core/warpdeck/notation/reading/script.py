"""Options of a batch script: its #SBATCH lines, then the directives of other schedulers that sbatch also reads,
then variables, then the options of the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.option_mapping import IGNORE
from warpdeck.notation.option_values.value_table import with_values
from warpdeck.notation.options.directives import (
    OTHER_MARKS,
    Directive,
    ScriptPart,
    directive_words,
    script_parts,
)
from warpdeck.notation.options.getopt import given_words, raise_error_of
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import SBATCH, OptionTable
from warpdeck.notation.options.variables import SBATCH_VARIABLES, variable_options
from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

from .components import Component, lasting, read_words

if TYPE_CHECKING:
    from warpdeck.notation.foreign.translation import Translation

SEVERAL_COMPONENTS = "components"
"""Code of the error if a script has several components but only one set of options was expected."""


def read_components(
    text: str,
    name: str,
    source: OptionSource,
    *,
    words: Sequence[str] = (),
    others: Sequence[Sequence[str]] = (),
    known: OptionTable = SBATCH,
) -> list[Component]:
    """Return the options of each component of a job. `name` is the script's name in messages.

    `words` are the options of the command line, `others` those of further components. As with sbatch, the last ones
    apply to all further components of the script. Nothing is raised: errors are entries of the options.
    """
    sections = [read_words(each, source, known, where="command line") for each in (words, *others)]
    variables = with_values(variable_options(source.environ, SBATCH_VARIABLES, known), source, known)
    parts = script_parts(text)
    parts += [ScriptPart(0, [])] * (len(sections) - len(parts))
    foreign = _Foreign(text, name)
    found: list[Component] = []
    kept: Options = [each for each in (*variables, *sections[0]) if each.option == IGNORE and not each.is_off]
    for number, part in enumerate(parts):
        script = _directive_options(part.directives, name, known)
        if not _fails(script):
            script += foreign.options([*kept, *script])
        section = sections[min(number, len(sections) - 1)]
        found.append(Component(with_values(script, source, known), variables, section))
        kept = lasting([*kept, *found[-1].options], known) if foreign.lines else []
    return found


def script_options(text: str, name: str, known: OptionTable = SBATCH) -> Options:
    """Return the options of a script with one component, as they were given, without values. Raises UserError."""
    found, others = _options_of_part(text, name, known)
    return [*found, *(each for each in others if each.option in known.options)]


def foreign_options(text: str, name: str, known: OptionTable = SBATCH) -> Options:
    """Return the options that lines of other schedulers give in a script with one component. Raises UserError.

    They include the pseudo-options of `foreign.option_mapping`.
    """
    return _options_of_part(text, name, known)[1]


def _options_of_part(text: str, name: str, known: OptionTable) -> tuple[Options, Options]:
    """Return the options of #SBATCH lines and those of other lines. Raises UserError."""
    first, *further = script_parts(text)
    if further:
        raise UserError(
            f"{name}:{further[0].line}: the script has several components, each with options of its own",
            "submit it as it is: sbatch accepts it",
            code=SEVERAL_COMPONENTS,
        )
    found = _directive_options(first.directives, name, known)
    raise_error_of(found)
    others = _Foreign(text, name).options(found)
    raise_error_of(others)
    return found, others


def _fails(options: Options) -> bool:
    return bool(options) and options[-1].error is not None


def _directive_options(directives: Sequence[Directive], name: str, known: OptionTable) -> Options:
    """Return the options of the #SBATCH lines of one component. An option's value may be on the following line."""
    try:
        words, lines = directive_words(directives, name)
    except SlurmError as error:
        return [_failed(error, name, error.script_line)]
    found, at = given_words(words, known, name, lines=lines)
    if at < len(words):
        fault = f"Invalid directive found in batch script: {words[at]}"
        left = SlurmError(fault, "quote values that contain blanks", exit_code=VALUE_EXIT)
        found.append(_failed(left, name, lines[at]))
    return found


def _failed(error: SlurmError, name: str, line: int) -> GivenOption:
    """Return an entry for a word that is no option."""
    return GivenOption("", where=f"{name}:{line}", line=line, error=error)


class _Foreign:
    """The #BSUB or #PBS lines of the script, which apply to each of its components."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._translation: Translation | None = None
        self.lines: list[Directive] = []
        if any(mark in text for mark in OTHER_MARKS):
            # Few scripts have such lines, and each submission would take longer for the import.
            from warpdeck.notation.foreign.translation import foreign_lines

            self.lines = foreign_lines(text)

    def options(self, before: Sequence[GivenOption]) -> Options:
        """Return the options of a component. `before` are its earlier options. An error is the last entry."""
        latest = {given.option: given.word for given in before}
        if not self.lines or IGNORE in latest:
            return []
        from warpdeck.notation.foreign.translation import Translation

        found: Options = []
        line = 0
        try:
            self._translation = self._translation or Translation(self.lines, self._name)
            for option, text in self._translation.mapped_options(latest.get):
                line = self._translation.line
                found.append(GivenOption(option, text, f"{self._name}:{line}", line))
                latest[option] = text or ""
        except SlurmError as error:
            line = error.script_line or (self._translation.line if self._translation is not None else 0)
            found.append(_failed(error, self._name, line))
        return found
