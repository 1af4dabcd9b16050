"""Options that a batch script contains: its #SBATCH lines, then the directives of other schedulers that
sbatch also reads.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import OTHER_MARKS, Component, components, words_of
from warpdeck.notation.options.getopt import OptionReader
from warpdeck.notation.options.options import SBATCH, OptionTable

from .request import Options

COMPONENTS = "components"
"""Code of the error if a script has several components but only one set of options was expected."""
_NOBODY: Mapping[str, str] = {}


class Said(NamedTuple):
    """Options of a script. `umask` is octal, "" if not given; `notes` are about directives without effect."""

    options: Options
    umask: str
    notes: list[str]


def script_options(text: str, name: str, known: OptionTable = SBATCH) -> Options:
    """Return the options of the script itself. Raises UserError."""
    return script_said(text, name, known).options


def each_said(
    text: str,
    name: str,
    known: OptionTable = SBATCH,
    *,
    environ: Mapping[str, str] = _NOBODY,
    words: Sequence[str] = (),
) -> list[Said]:
    """Return the options of each component of the script. Raises UserError."""
    first, *others = components(text)
    if not others:
        return [script_said(text, name, known, environ=environ, words=words)]
    found = [Said(_of_component(each, name, known), "", []) for each in (first, *others)]
    if not any(mark in text for mark in OTHER_MARKS):
        return found
    return [
        _with_others(said.options, text, name, environ=environ, words=words, known=known) for said in found
    ]


def script_said(
    text: str,
    name: str,
    known: OptionTable = SBATCH,
    *,
    environ: Mapping[str, str] = _NOBODY,
    words: Sequence[str] = (),
) -> Said:
    """Return the options of a script with one component. Raises UserError.

    `environ` and the command line's `words` may specify that only #SBATCH lines count.
    """
    options = _of_directives(text, name, known)
    if any(mark in text for mark in OTHER_MARKS):
        return _with_others(options, text, name, environ=environ, words=words, known=known)
    return Said(options, "", [])


def _of_directives(text: str, name: str, known: OptionTable) -> Options:
    first, *others = components(text)
    if others:
        raise UserError(
            f"{name}:{others[0].line}: the script has several components, each with options of its own",
            "submit it as it is: sbatch takes it",
            code=COMPONENTS,
        )
    return _of_component(first, name, known)


def _of_component(component: Component, name: str, known: OptionTable) -> Options:
    pairs = list(words_of(component.directives, lambda number: f"{name}:{number}"))
    words, lines = [word for word, _ in pairs], [line for _, line in pairs]
    found: Options = []
    reader = OptionReader(words, known)
    where = name
    try:
        while reader.at < len(words):
            where = f"{name}:{lines[reader.at]}"
            option, value = next(reader)
            found.append((option, value or "", where))
    except StopIteration:
        pass
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint, code=error.code) from None
    if reader.at < len(words):
        raise UserError(f"{where}: {words[reader.at]!r} is no option", "quote values that hold blanks")
    return found


def _with_others(
    options: Options,
    text: str,
    name: str,
    *,
    environ: Mapping[str, str],
    words: Sequence[str],
    known: OptionTable,
) -> Said:
    from warpdeck.notation.foreign.option_mapping import PASSED_OVER, UMASK
    from warpdeck.notation.foreign.translation import IGNORE, is_ignored, translation
    from warpdeck.notation.values.refusal import Refusal

    said = Said(list(options), "", [])
    latest = {option: value for option, value, _ in options}
    if IGNORE in latest or is_ignored(environ, words, known):
        return said
    found = translation(text, lambda number: f"{name}:{number}")
    if found is None:
        return said
    try:
        for option, value in found.meanings(latest.get):
            where = f"{name}:{found.line}"
            if option == PASSED_OVER:
                said.notes.append(f"{where}: {value} has no effect")
            elif option == UMASK:
                said = said._replace(umask=value or "")
            else:
                said.options.append((option, value or "", where))
                latest[option] = value or ""
    except Refusal as error:
        said_of_it = "; ".join((*error.more, error.message))
        raise UserError(f"{name}:{found.line}: {said_of_it}", error.hint) from None
    return said
