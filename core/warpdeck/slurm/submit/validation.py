"""Validates sbatch's options and script with the rules of the real sbatch, before any request is sent."""

from __future__ import annotations

import os.path
import time
from collections.abc import Sequence

from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.client.submission import MAX_FILE_CHARS
from warpdeck.notation.options.getopt import MISUSED, UNKNOWN
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SBATCH_22_05, OptionTable
from warpdeck.notation.reading.components import Component
from warpdeck.notation.validation.result import Rejection
from warpdeck.notation.validation.script import validate_components
from warpdeck.notation.values.slurm_error import SlurmError
from warpdeck.slurm.console.console import CommandError, Console

_NOT_THERE = 'Try "sbatch'
"""Start of the last line that sbatch prints for an unknown or misused option."""


def option_source(console: Console) -> OptionSource:
    """Return the surroundings of the caller that options may refer to."""
    return OptionSource(
        cwd=console.folder,
        environ=console.env,
        now=time.time(),
        is_root=console.user == "root",
        user_id=existing_uid,
        group_id=existing_gid,
        read_text=lambda path: console.read_file(os.path.join(console.folder, path), MAX_FILE_CHARS).decode(),
    )


def raise_if_unknown(components: Sequence[Component], *, is_last: bool) -> None:
    """Raise UserError for an unknown option, which may be an option of a site's plugin, unless `is_last`."""
    error = _error_of_words(components)
    if error is not None and error.code == UNKNOWN and not is_last:
        raise error


def check(components: Sequence[Component], source: OptionSource, *, known: OptionTable) -> None:
    """Raise CommandError with sbatch's message and exit code if the real sbatch would reject the options.

    Our own hint follows the message. `known` is the table with which the options were read. An option that only
    warpdeck has ends the check, because Slurm's rules cannot be applied to it.
    """
    is_misused = _error_of_words(components) is not None
    found = validate_components(components, source, known=known if is_misused else SBATCH_22_05).rejection
    if found is not None and found.is_answer:
        raise CommandError("\n".join(found.lines), exit_code=found.exit_code, is_answer=True)
    if found is not None and (is_misused or found.code != UNKNOWN):
        raise CommandError(_printed(found), exit_code=found.exit_code, bare=True)


def _error_of_words(components: Sequence[Component]) -> SlurmError | None:
    """Return the first error about a word that cannot be read as an option."""
    options = (each for component in components for each in component.options)
    errors = (each.error for each in options if each.error is not None)
    return next((error for error in errors if error.code in (UNKNOWN, MISUSED)), None)


def _printed(found: Rejection) -> str:
    where = f"  line {found.line}: {found.hint}" if found.line else f"  {found.hint}"
    lines = [line if line.startswith(_NOT_THERE) else f"sbatch: {line}" for line in found.lines]
    return "\n".join([*lines, *([where] if found.hint else [])])
