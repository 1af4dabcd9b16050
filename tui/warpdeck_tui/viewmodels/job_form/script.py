"""Reads and changes the #SBATCH options in the text of a batch script, for the "New job" form.

The text is the only source of truth. An option that is set is replaced in its line, or added in a new line
below the others; the rest of the script stays as it was. The lines of other schedulers take precedence over
#SBATCH. If one of their options is set, all of their lines are converted into equivalent #SBATCH lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.option_mapping import UMASK, is_ignored
from warpdeck.notation.options.directives import BLANKS, OTHER_MARKS, script_parts, split_words
from warpdeck.notation.options.getopt import as_word, parse_words
from warpdeck.notation.options.option_table import SBATCH
from warpdeck.notation.reading.script import foreign_options
from warpdeck.notation.request.sweep import sweep_of, with_sweep, without_sweep

BARE = "#!/bin/sh\n"
"""A script without commands."""
MARK = "#SBATCH"
Pair = tuple[str, str]
"""(long option, value)."""


def with_option(text: str, option: str, value: str | None) -> str:
    """Return the script with this value of the option.

    "" is the value of an option without one; None removes the option.
    """
    pairs = [] if value is None else [(option, value)]
    return _replaced(text, of=lambda each: each == option, by=pairs)


def with_others(text: str, pairs: Sequence[Pair], *, but: frozenset[str]) -> str:
    """Return the script with all of its options replaced by these, except the options in `but`."""
    return _replaced(text, of=lambda each: each not in but, by=pairs)


def body_of(text: str) -> str:
    """Return the commands of the script, without a sweep.

    They begin after the last #SBATCH line that sbatch reads, or after the #! line.
    """
    text = without_sweep(text)
    return "\n".join(text.split("\n")[_head_lines(text) :]).strip("\n")


def with_body(text: str, body: str) -> str:
    """Return the script with its commands replaced."""
    bare = without_sweep(text)
    head = bare.split("\n")[: _head_lines(bare)]
    return with_sweep("\n".join([*head, body, ""]), sweep_of(text))


def as_words(pairs: Sequence[Pair]) -> str:
    """Return the options as typed on a command line."""
    return shlex.join(as_word(option, value, SBATCH) for option, value in pairs)


def _replaced(text: str, *, of: Callable[[str], bool], by: Sequence[Pair]) -> str:
    """Return the script with `by` in place of the options for which `of` is true.

    The first new option is put in the place of the first old one, and so on. The remaining ones are added
    below.
    """
    text = _with_own_lines(text, of)
    lines = text.split("\n")
    left = list(by)
    gone: list[int] = []
    for directive in script_parts(text)[0].directives:
        try:
            pairs = parse_words(split_words(directive.text), "")
        except UserError:
            # The line is incomplete, or continues on the next line. The options added below it take
            # precedence.
            continue
        if not any(of(option) for option, _ in pairs):
            continue
        kept: list[Pair] = []
        for option, value in pairs:
            if not of(option):
                kept.append((option, value))
            elif left:
                kept.append(left.pop(0))
        if kept:
            if kept != pairs:
                lines[directive.number - 1] = _line(kept)
        else:
            gone.append(directive.number - 1)
    for index in reversed(gone):
        del lines[index]
    at = _head_lines("\n".join(lines))
    lines[at:at] = [_line([pair]) for pair in left]
    return "\n".join(lines)


def _with_own_lines(text: str, of: Callable[[str], bool]) -> str:
    """Return the script with #PBS or #BSUB lines replaced by #SBATCH lines.

    This is done only if they set an option for which `of` is true.
    """
    if not any(mark in text for mark in OTHER_MARKS):
        return text
    try:
        options = foreign_options(text, "")
    except UserError:
        return text  # a line is incomplete
    masks = [given.word for given in options if given.option == UMASK]
    pairs = [
        (given.option, given.word) for given in options if given.option != UMASK and not is_ignored(given)
    ]
    if not any(of(option) for option, _ in pairs):
        return text
    lines = [line for line in text.split("\n") if not line.startswith(OTHER_MARKS)]
    at = _head_lines("\n".join(lines))
    kept = [f"#PBS -W umask={mask}" for mask in masks[-1:]]
    lines[at:at] = [*(_line([pair]) for pair in _latest(pairs)), *kept]
    return "\n".join(lines)


def _latest(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the last occurrence of each option, which includes the earlier ones.

    All occurrences of mail-type are kept.
    """
    last = {option: at for at, (option, _) in enumerate(pairs)}
    return [pair for at, pair in enumerate(pairs) if last[pair[0]] == at or pair[0] == "mail-type"]


def _head_lines(text: str) -> int:
    """Return the number of lines down to the last #SBATCH line or, if there is none, to the #! line."""
    directives = script_parts(text)[-1].directives
    if directives:
        return directives[-1].number
    return int(text.lstrip(BLANKS).startswith("#!"))


def _line(pairs: Sequence[Pair]) -> str:
    # A backslash makes the next letter literal, even within quotes.
    return f"{MARK} {as_words(pairs)}".replace("\\", "\\\\")
