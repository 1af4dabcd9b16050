"""Parser of the #SBATCH lines of a script, with the grammar of sbatch (compared with 22.05).

A directive begins in column 0 and in capitals; no blank is needed after #SBATCH. Blank lines and comment
lines are skipped, and the first command line ends the scan. Blanks separate words, and quotes keep them
together. A backslash escapes the next character unless that is a blank. An unquoted # ends the line even
inside a word, and so does an empty word. `#SBATCH hetjob` begins another component.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.slurm_error import PLAIN, SlurmError

MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""Maximum size of a script. A batch script starts programs; it is sent in one message together with its
environment.
"""
MAX_COMPONENTS = 128
"""Maximum number of components of a heterogeneous job, as in Slurm."""
BLANKS = " \t\v\f\r\n"
OTHER_MARKS = ("#BSUB", "#PBS")
"""Prefixes of other schedulers' directives, which sbatch reads too (see `foreign.translation`). The first
prefix of this list that occurs in a script determines its kind.
"""
_SEPARATOR = re.compile(r"(packjob|hetjob)(?=[ \t\v\f\r]|$)", re.IGNORECASE)


class Directive(NamedTuple):
    """One directive line. `text` is the text after its mark."""

    number: int
    mark: str
    text: str


class ScriptPart(NamedTuple):
    """The directives of one component of a job. The first component begins at line 1, each other one at its
    separator.
    """

    line: int
    directives: list[Directive]


def script_error(text: str, name: str) -> SlurmError | None:
    """Return sbatch's error for a file that is not a batch script, or None if it is one."""
    if not text:
        lines, hint = ["Batch script is empty!"], "write a script that begins with #!/bin/bash"
    elif not text.partition("\0")[0].strip(BLANKS):
        lines, hint = (
            ["Batch script contains only whitespace!"],
            "write a script that begins with #!/bin/bash",
        )
    elif not text.startswith("#!"):
        lines = [
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        ]
        hint = "begin it with #!/bin/bash"
    elif "\0" in text:
        lines = ["The Slurm controller does not allow scripts that", "contain a NULL character '\\0'."]
        hint = "submit a script that runs the program"
    elif "\r\n" in text:
        lines = [
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        ]
        hint = f"run: sed -i 's/\\r$//' {name}"
    else:
        return None
    return SlurmError(lines[-1], hint, more=tuple(f"error: {line}" for line in lines[:-1]), exit_code=PLAIN)


def check_script(text: str, name: str) -> None:
    """Raise UserError for a script that sbatch rejects."""
    error = script_error(text, name)
    if error is not None:
        lines = [line.removeprefix("error: ") for line in error.lines]
        raise UserError(f"{name}: {' '.join(lines)}", error.hint)


def script_parts(text: str) -> list[ScriptPart]:
    """Return the parts of the script, one for each component of the job, with the directives that sbatch reads."""
    found = [ScriptPart(1, [])]
    for number, line in enumerate(text.split("\n"), start=1):
        mark = next((word for word in ("#SBATCH", "#SLURM") if line.startswith(word)), "")
        if mark:
            rest = line[len(mark) :].lstrip(BLANKS)
            if _SEPARATOR.match(rest):
                found.append(ScriptPart(number, []))
            found[-1].directives.append(Directive(number, mark, rest))
        elif (first := line.lstrip(BLANKS)) and not first.startswith("#"):
            break
    return found


def directive_words(directives: Sequence[Directive], name: str) -> tuple[list[str], list[int]]:
    """Return the words of all lines, and the line of each word. Raises SlurmError, which has the line."""
    words: list[str] = []
    lines: list[int] = []
    for number, _, text in directives:
        try:
            found = split_words(text)
        except SlurmError as error:
            error.level = f"fatal: {name.rsplit('/', 1)[-1]}: line {number}"
            error.exit_code, error.script_line = PLAIN, number
            raise
        words += found
        lines += [number] * len(found)
    return words, lines


def split_words(text: str) -> list[str]:
    """Return the words of a directive line. Raises SlurmError."""
    words: list[str] = []
    at = 0
    while True:
        word, at = _next_word(text, at)
        if word is None:
            return words
        words.append(word)


_PLAIN = {"": re.compile(r"[^ \t\v\f\r\n\\'\"#]+"), "'": re.compile(r"[^\\']+"), '"': re.compile(r'[^\\"]+')}
"""Characters that stand for themselves: outside of quotes, and inside each kind of quotes."""


def _next_word(text: str, at: int) -> tuple[str | None, int]:
    """Return (the next word or None at the end, the position after it)."""
    start = at
    while at < len(text) and text[at] in BLANKS:
        at += 1
    if _SEPARATOR.match(text, at):
        return None, at
    if text[at : at + 1] == ":":
        raise SlurmError(f"Unexpected `:` in [{text[start:]}]", "write an option, or remove the line")
    pieces, quote, begun = list[str](), "", False
    while at < len(text) and (quote or text[at] not in BLANKS):
        letter = text[at]
        if letter == "\\":
            if at + 1 < len(text) and (quote or text[at + 1] not in BLANKS):
                pieces.append(text[at + 1])
                begun = True
                at += 1
            at += 1
        elif letter == quote:
            quote = ""
            at += 1
        elif not quote and letter in "'\"":
            quote = letter
            at += 1
        elif not quote and letter == "#":
            break
        else:
            run = _PLAIN[quote].match(text, at)
            assert run is not None
            pieces.append(run[0])
            begun, at = True, run.end()
    if quote:
        raise SlurmError(f"Unmatched `{quote}` in [{text[start:]}]", f"close the quote with {quote}")
    return ("".join(pieces) if begun else None), at
