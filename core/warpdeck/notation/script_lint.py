"""Finds likely mistakes in a batch script that sbatch accepts, line by line, and describes the request as
text.

Only mistakes that users have actually made are reported. The site's own rules (partitions, memory) are not
known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.foreign.option_mapping import IGNORE, NO_EFFECT, UMASK
from warpdeck.notation.foreign.translation import MAX_FOREIGN_LINES, foreign_lines
from warpdeck.notation.option_values.value_table import SAME
from warpdeck.notation.options.directives import (
    BLANKS,
    MAX_COMPONENTS,
    OTHER_MARKS,
    Directive,
    ScriptPart,
    script_parts,
    split_words,
)
from warpdeck.notation.options.given_options import GivenOption
from warpdeck.notation.options.option_table import NOTED, REFUSED, SBATCH
from warpdeck.notation.options.unsupported import unsupported
from warpdeck.notation.validation.result import ValidationResult
from warpdeck.notation.values.numbers import strtol

MAX_REMARKS = 200
"""Maximum number of remarks. A generated file may repeat the same mistake many times."""


class Remark(NamedTuple):
    """A remark about a line. `line` is 0 for the script as a whole."""

    line: int
    words: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.words}" if self.line else self.words


def remarks(text: str, result: ValidationResult, *, is_folder: Callable[[str], bool]) -> list[Remark]:
    """Return the remarks in the order of the lines. `is_folder` tells whether a directory with this path
    exists.
    """
    found: list[Remark] = []
    parts = script_parts(text)
    found += _of_lines(text, parts)
    found += _of_others(text, [one for given in result.given for one in given])
    for part, given in zip(parts, result.given, strict=False):
        for directive in part.directives:
            found += _of_directive(directive.number, directive.mark, directive.text)
        for one in given:
            found += _of_value(one)
        found += _given_twice(given)
        found += _not_here(given)
    if len(parts) > MAX_COMPONENTS:
        words = f"the job has {len(parts):,} components; at most {MAX_COMPONENTS} can be submitted"
        found.append(Remark(parts[1].line, words))
    for shown, given in zip(result.shown, result.given, strict=False):
        lines = {one.option: one.line for one in given}
        found += _folders(shown, lines, is_folder)
    unique = dict.fromkeys(sorted(found, key=lambda remark: (remark.line == 0, remark.line)))
    return list(unique)[:MAX_REMARKS]


_LOOKALIKE = re.compile(
    r"(?:[ \t]+#[ \t]*SBATCH|#[ \t]+SBATCH|[ \t]*#[ \t]*(?!SBATCH)[sS][bB][aA][tT][cC][hH])[ \t]*-"
)
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


def _of_lines(text: str, parts: Sequence[ScriptPart]) -> Iterator[Remark]:
    """Report lines that look like directives but are not."""
    read = {directive.number for part in parts for directive in part.directives}
    until, command = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        if until:
            until = "" if line.strip() == until else until
            continue
        first = line.lstrip(BLANKS)
        if line.startswith("#SBATCH") and number not in read:
            yield Remark(
                number, f"this directive is not read: line {command} is a command, and directives end there"
            )
        elif not command and _LOOKALIKE.match(line):
            yield Remark(number, "this is a comment: a directive begins with #SBATCH in the first column")
        if first and not first.startswith("#"):
            command = command or number
            if (match := _HERE_DOCUMENT.search(line)) is not None:
                until = match[2]


def _of_others(text: str, given: Sequence[GivenOption]) -> Iterator[Remark]:
    """Report directives of other schedulers: that they have an effect, or why they have none."""
    lines = foreign_lines(text)
    counting = {line.number for line in lines} if all(one.option != IGNORE for one in given) else set()
    if counting:
        words = f"{lines[0].mark} lines have an effect here and in Slurm's sbatch, also after commands, and override #SBATCH"
        yield Remark(lines[0].number, f"{words}; --ignore-pbs disables them")
    for number, line in enumerate(text.split("\n"), start=1):
        mark = next(filter(line.startswith, OTHER_MARKS), "")
        if mark and number not in counting:
            yield Remark(number, f"this {mark} line is not read: {_why_not(mark, lines, counting)}")


def _why_not(mark: str, lines: Sequence[Directive], counting: Set[int]) -> str:
    if not counting:
        return "--ignore-pbs disables it" if lines else f"it comes after more than {MAX_FOREIGN_LINES} lines"
    if mark != lines[0].mark:
        return f"the script also has {lines[0].mark} lines, and sbatch reads only one kind"
    return f"it comes after more than {MAX_FOREIGN_LINES} lines that are not comments"


_EMPTY_WORD = re.compile(r"(?:^|[ \t])(?:\"\"|'')(?=[ \t]|$)")
_CUT = re.compile(r"(?<=[^ \t\\\"'])#")


def _of_directive(number: int, mark: str, text: str) -> Iterator[Remark]:
    if mark == "#SLURM":
        yield Remark(number, "write #SBATCH instead of #SLURM")
    try:
        split_words(text)
    except UserError:
        return
    plain = re.sub(r"\\.", "xx", text)
    if (match := _EMPTY_WORD.search(plain)) is not None:
        option = plain[: match.start()].split()[-1:]
        write = f"; write {option[0]}=" if option and option[0].startswith("--") else ""
        yield Remark(
            number, f'an empty word "" ends the line, and the next word is taken as the value{write}'
        )
    if plain.rstrip().endswith("\\"):
        yield Remark(number, "a backslash does not continue a directive: the next line is not part of it")
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", lambda quoted: "x" * len(quoted[0]), plain)
    if (match := _CUT.search(bare)) is not None and "#" not in bare[: match.start()]:
        yield Remark(number, "# ends the line even inside a word; quote the value if # is part of it")


_VARIABLE = re.compile(r"\$(?:\w+|\{[^}]*\}|\([^)]*\))|`")
_LSF_ARRAY = re.compile(r"[^\[]*\[[\d,:-]+\](?:%\d+)?")
_NUMBER = re.compile(r"[ \t]*[+-]?\d+|TOP", re.ASCII | re.IGNORECASE)
_SHORT_TIME = re.compile(r"(\d{1,4}):(\d{2})")


def _of_value(one: GivenOption) -> Iterator[Remark]:
    text = one.text or ""
    if one.line and (match := _VARIABLE.search(text)) is not None and one.option != "comment":
        words = f"--{one.option}={text}: {match[0]} is not replaced, because no shell reads directives"
        hint = (
            "; %j, %x, %u and %a stand for job ID, name, user and task"
            if one.option in ("output", "error")
            else ""
        )
        yield Remark(one.line, words + hint)
    if one.option in ("time", "time-min") and (short := _SHORT_TIME.fullmatch(text)) is not None:
        words = f"--{one.option}={text} is {int(short[1])} minutes and {int(short[2])} seconds"
        yield Remark(one.line, f"{words}; for hours write {text}:00")
    if one.option == "job-name" and _LSF_ARRAY.fullmatch(text) is not None:
        yield Remark(one.line, f"--job-name={text} is a name and not an array; write #SBATCH --array")
    if one.option in ("nice", "priority") and text and not _NUMBER.fullmatch(text):
        held = ", and holds the job" if one.option == "priority" and not strtol(text)[0] else ""
        yield Remark(one.line, f"--{one.option}={text} is not a number; it counts as {strtol(text)[0]}{held}")
    if one.option == "mail-user" and not text:
        yield Remark(one.line, "--mail-user has no address; mail goes to the user who submits")


def _given_twice(given: Sequence[GivenOption]) -> Iterator[Remark]:
    last: dict[str, GivenOption] = {}
    for one in given:
        name = SAME.get(one.option, one.option)
        before = last.get(name)
        if (
            before is not None
            and before.text != one.text
            and not _adds_to(name, before.text or "", one.text or "")
            and one.line
            and before.line
        ):
            words = f"--{name}={one.text or ''} replaces --{name}={before.text or ''} in line {before.line}"
            yield Remark(one.line, words)
        last[name] = one


def _adds_to(option: str, before: str, text: str) -> bool:
    """Return whether the new value includes everything of the earlier one."""
    if option in ("constraint", "export", "gres"):
        return text.removeprefix("gres:").startswith(f"{before},") or text.endswith(f",{before}")
    return option == "mail-type"


def _not_here(given: Sequence[GivenOption]) -> Iterator[Remark]:
    for one in given:
        if one.option == NO_EFFECT:
            yield Remark(one.line, f"{one.text} has no effect; sbatch ignores it")
        if one.option in (IGNORE, NO_EFFECT, UMASK) or one.option.startswith("switch-"):
            continue
        option = SBATCH.options.get(one.option)
        if option is None or option.here == NOTED:
            yield Remark(one.line, f"--{one.option} has no effect here")
        elif option.here == REFUSED:
            refusal = unsupported(one.option, "submission rejects this")
            yield Remark(one.line, f"{refusal.message}; {refusal.hint}")


def _folders(
    shown: Mapping[str, str], lines: Mapping[str, int], is_folder: Callable[[str], bool]
) -> Iterator[Remark]:
    """Report missing directories of output files. Slurm opens these files before the script can create
    directories, and the job then fails without a message.
    """
    for option in ("output", "error"):
        folder = shown.get(option, "").rpartition("/")[0]
        if folder and "%" not in folder and not is_folder(folder):
            words = f"the folder of --{option}, {folder}, does not exist: in Slurm, the job would fail without a log"
            yield Remark(lines.get(option, 0), f"{words} (warpdeck creates it)")


_PHRASES = {
    "job-name": "named {}",
    "partition": "in partition {}",
    "account": "for account {}",
    "qos": "with QoS {}",
    "array": "an array: tasks {}",
    "nodes": "{} node(s)",
    "nodelist": "on {}",
    "exclude": "not on {}",
    "constraint": "nodes with {}",
    "ntasks": "{} task(s)",
    "ntasks-per-node": "{} task(s) per node",
    "cpus-per-task": "{} CPU(s) per task",
    "cpus-per-gpu": "{} CPU(s) per GPU",
    "mem": "{} memory per node",
    "mem-per-cpu": "{} memory per CPU",
    "mem-per-gpu": "{} memory per GPU",
    "gres": "{} on each node",
    "gpus": "{} GPU(s) in total",
    "gpus-per-node": "{} GPU(s) per node",
    "gpus-per-task": "{} GPU(s) per task",
    "exclusive": "{}",
    "time": "for at most {}",
    "time-min": "for at least {}",
    "begin": "not before {}",
    "deadline": "done by {}",
    "dependency": "after {}",
    "reservation": "in reservation {}",
    "licenses": "licenses {}",
    "signal": "signal {} before the time limit",
    "requeue": "{} after a failure of its node",
    "no-requeue": "{} after a failure of its node",
    "chdir": "in folder {}",
    "output": "output to {}",
    "error": "errors to {}",
}
_SHARED = {
    "exclusive": "exclusive nodes",
    "user": "nodes shared only with jobs of the same user",
    "mcs": "nodes shared only with jobs of the same MCS label",
    "oversubscribe": "nodes shared with jobs of any user",
}
_UNITS = {"mem": "M", "mem-per-cpu": "M", "mem-per-gpu": "M"}


def in_words(shown: Mapping[str, str]) -> list[str]:
    """Describe the request of a component, with one phrase per option."""
    found = []
    for option, phrase in _PHRASES.items():
        if option in shown:
            found.append(phrase.format(_value(option, shown[option])))
    others = sorted(set(shown) - set(_PHRASES))
    return found + [f"--{option}={shown[option]}" for option in others]


def _value(option: str, text: str) -> str:
    if option in _UNITS:
        return "all" if text == "0?" else text + (_UNITS[option] if text.isdigit() else "")
    if option == "exclusive":
        return _SHARED.get(text, text)
    return text.replace("gres:", "") if option == "gres" else text
