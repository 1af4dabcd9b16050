"""A batch script and its #SBATCH lines as values that can be set: what the form for a new job shows is one text.

The text alone is the truth. An option that is set is rewritten in the line where it stands, or stands in a line of its own below the
others; everything else of the script stays as it was written. Lines for other schedulers outrank #SBATCH: where one of their
options is set, all of them become #SBATCH lines that mean the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.translation import lines_of_others
from warpdeck.notation.options.directives import BLANKS, OTHER_MARKS, components, split_words
from warpdeck.notation.options.getopt import as_word, parse_words
from warpdeck.notation.options.options import SBATCH
from warpdeck.notation.request.script_options import script_said
from warpdeck.notation.request.sweep import sweep_of, with_sweep, without_sweep

BARE = "#!/bin/sh\n"
"""A script with nothing in it yet."""
MARK = "#SBATCH"
Pair = tuple[str, str]
"""(long option, value)."""


def with_option(text: str, option: str, value: str | None) -> str:
    """The script with this value in the option's line, "" for one that takes none; None takes the option out."""
    pairs = [] if value is None else [(option, value)]
    return _replaced(text, of=lambda each: each == option, by=pairs)


def with_others(text: str, pairs: Sequence[Pair], *, but: frozenset[str]) -> str:
    """The script with these options in place of all that it has, `but` these."""
    return _replaced(text, of=lambda each: each not in but, by=pairs)


def body_of(text: str) -> str:
    """The commands: what stands below the last #SBATCH line that sbatch reaches, or below the #! line, and below a sweep."""
    text = without_sweep(text)
    return "\n".join(text.split("\n")[_head_lines(text) :]).strip("\n")


def with_body(text: str, body: str) -> str:
    """The script with other commands."""
    bare = without_sweep(text)
    head = bare.split("\n")[: _head_lines(bare)]
    return with_sweep("\n".join([*head, body, ""]), sweep_of(text))


def as_words(pairs: Sequence[Pair]) -> str:
    """Options as one types them on a command line."""
    return shlex.join(as_word(option, value, SBATCH) for option, value in pairs)


def _replaced(text: str, *, of: Callable[[str], bool], by: Sequence[Pair]) -> str:
    """The script without the options that `of` says, and with `by`: the first where the first of them stood, the rest below."""
    text = _with_own_lines(text, of)
    lines = text.split("\n")
    left = list(by)
    gone: list[int] = []
    for directive in components(text)[0].directives:
        try:
            pairs = parse_words(split_words(directive.text, ""), "")
        except UserError:
            continue  # a line that is still being written, or that goes on in the next: what is set below outranks it
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
    """The script with #SBATCH lines in place of #PBS or #BSUB lines, if those set an option that `of` says."""
    if not any(mark in text for mark in OTHER_MARKS):
        return text
    try:
        said = script_said(text, "")
    except UserError:
        return text  # a line that is still being written
    counting = {f":{line.number}" for line in lines_of_others(text)}
    pairs = [(option, value) for option, value, where in said.options if where in counting]
    if not any(of(option) for option, _ in pairs):
        return text
    lines = [line for line in text.split("\n") if not line.startswith(OTHER_MARKS)]
    at = _head_lines("\n".join(lines))
    kept = [f"#PBS -W umask={said.umask}"] if said.umask else []
    lines[at:at] = [*(_line([pair]) for pair in _latest(pairs)), *kept]
    return "\n".join(lines)


def _latest(pairs: Sequence[Pair]) -> list[Pair]:
    """The last of each option, which holds what the earlier ones said; of mail, all."""
    last = {option: at for at, (option, _) in enumerate(pairs)}
    return [pair for at, pair in enumerate(pairs) if last[pair[0]] == at or pair[0] == "mail-type"]


def _head_lines(text: str) -> int:
    """The lines down to the last #SBATCH line, or to the #! line."""
    directives = components(text)[-1].directives
    if directives:
        return directives[-1].number
    return int(text.lstrip(BLANKS).startswith("#!"))


def _line(pairs: Sequence[Pair]) -> str:
    # A backslash takes the next letter as it is, even between quotes.
    return f"{MARK} {as_words(pairs)}".replace("\\", "\\\\")
