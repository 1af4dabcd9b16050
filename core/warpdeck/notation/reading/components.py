"""Options of the components of a job, in the order in which they count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.notation.option_values.value_table import with_values
from warpdeck.notation.options.getopt import given_words
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import OptionTable
from warpdeck.notation.options.variables import Variables, variable_options
from warpdeck.notation.values.slurm_error import SlurmError


class Component(NamedTuple):
    """The options of one component of a job. Later ones override earlier ones."""

    script: Options
    """Options of the script."""
    variables: Options
    """Options that environment variables set."""
    words: Options
    """Options of the command line."""

    @property
    def options(self) -> Options:
        """All options of the component, in the order of their precedence."""
        return [*self.script, *self.variables, *self.words]


class LaunchLine(NamedTuple):
    """The command line of srun or salloc."""

    components: list[Component]
    command: list[str]
    """The command that it runs, with its arguments."""


def lasting(options: Sequence[GivenOption], known: OptionTable) -> Options:
    """Return the options that also apply to the next component of a job."""
    return [each for each in options if each.option in known.options and not known.options[each.option].each]


def read_words(words: Sequence[str], source: OptionSource, known: OptionTable, *, where: str) -> Options:
    """Return the options of a command line that contains only options. An error is the last entry."""
    found, at = given_words(words, known, where)
    if at < len(words):
        error = SlurmError(f"{words[at]!r} is not an option", "quote values that contain blanks")
        found.append(GivenOption("", where=where, error=error))
    return with_values(found, source, known)


def read_launch(
    words: Sequence[str], source: OptionSource, known: OptionTable, variables: Variables
) -> LaunchLine:
    """Return the command line of srun or salloc. A colon separates the components of salloc.

    An error is the last entry of a component.
    """
    named = with_values(variable_options(source.environ, variables, known), source, known)
    components: list[Component] = []
    rest = list(words)
    while True:
        found, at = given_words(rest, known, known.command)
        components.append(Component([], named, with_values(found, source, known)))
        rest = rest[at:]
        if known.command != "salloc" or rest[:1] != [":"]:
            return LaunchLine(components, rest)
        rest = rest[1:]
