"""The #SBATCH lines of a script, by the grammar of sbatch (measured on 22.05):

column 0 and capitals; no blank needed after #SBATCH; blank and comment lines are passed over, the first command line
ends the scan; blanks separate words, quotes hold them together, a backslash keeps the next letter unless that is a blank, an
unquoted # ends the line even inside a word, and so does a word that is empty. `#SBATCH hetjob` begins another component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError

MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""A batch script starts programs; it travels in one message with its environment."""
MAX_COMPONENTS = 128
"""Of a heterogeneous job, as in Slurm."""
BLANKS = " \t\v\f\r\n"
OTHER_MARKS = ("#BSUB", "#PBS")
"""Of other schedulers' directives, which sbatch reads too (sbatch.translation). A script's first in this order is the kind it has."""
_SEPARATOR = re.compile(r"(packjob|hetjob)(?=[ \t\v\f\r]|$)", re.IGNORECASE)


class Directive(NamedTuple):
    """One line. `text` is what stands behind its mark."""

    number: int
    mark: str
    text: str


class Component(NamedTuple):
    """The directives of one component of a job; the first begins at line 1, each other at its separator."""

    line: int
    directives: list[Directive]


def script_fault(text: str, name: str) -> tuple[list[str], str] | None:
    """(what sbatch says of a file that is no batch script, what to do), or None if it is one."""
    if not text:
        return ["Batch script is empty!"], "write a script that begins with #!/bin/bash"
    if not text.partition("\0")[0].strip(BLANKS):
        return ["Batch script contains only whitespace!"], "write a script that begins with #!/bin/bash"
    if not text.startswith("#!"):
        return [
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        ], "begin it with #!/bin/bash"
    if "\0" in text:
        return [
            "The Slurm controller does not allow scripts that",
            "contain a NULL character '\\0'.",
        ], "give a script, and put programs into it"
    if "\r\n" in text:
        return [
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        ], f"run: sed -i 's/\\r$//' {name}"
    return None


def check_script(text: str, name: str) -> None:
    """Raises UserError for what sbatch refuses."""
    fault = script_fault(text, name)
    if fault is not None:
        raise UserError(f"{name}: {' '.join(fault[0])}", fault[1])


def components(text: str) -> list[Component]:
    """The directives that sbatch reaches, component by component."""
    found = [Component(1, [])]
    for number, line in enumerate(text.split("\n"), start=1):
        mark = next((word for word in ("#SBATCH", "#SLURM") if line.startswith(word)), "")
        if mark:
            rest = line[len(mark) :].lstrip(BLANKS)
            if _SEPARATOR.match(rest):
                found.append(Component(number, []))
            found[-1].directives.append(Directive(number, mark, rest))
        elif (first := line.lstrip(BLANKS)) and not first.startswith("#"):
            break
    return found


def words_of(directives: Sequence[Directive], where: Callable[[int], str]) -> Iterator[tuple[str, int]]:
    """The words of all the lines, and the line of each: a value may stand in the line below. `where` names a line in errors.

    Raises UserError.
    """
    for number, _, text in directives:
        for word in split_words(text, where(number)):
            yield word, number


def split_words(text: str, where: str) -> list[str]:
    """The words of a directive line. Raises UserError."""
    words: list[str] = []
    at = 0
    while True:
        word, at = _next_word(text, at, where)
        if word is None:
            return words
        words.append(word)


_PLAIN = {"": re.compile(r"[^ \t\v\f\r\n\\'\"#]+"), "'": re.compile(r"[^\\']+"), '"': re.compile(r'[^\\"]+')}
"""Letters that mean themselves: outside of quotes, and inside of each kind."""


def _next_word(text: str, at: int, where: str) -> tuple[str | None, int]:
    """(the next word, None at the end; where it ends)."""
    start = at
    while at < len(text) and text[at] in BLANKS:
        at += 1
    if _SEPARATOR.match(text, at):
        return None, at
    if text[at : at + 1] == ":":
        raise UserError(
            f"{where}: Unexpected `:` in [{text[start:]}]", "write an option, or take the line out"
        )
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
        raise UserError(f"{where}: Unmatched `{quote}` in [{text[start:]}]", f"close the quote with {quote}")
    return ("".join(pieces) if begun else None), at
