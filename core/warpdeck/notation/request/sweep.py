"""Sweeps: an array with one task for every combination of some parameters' values.

`lr=0.1,0.01 seed=1..5` is written into the batch script below its #SBATCH lines: a comment with the grid, and
one line per parameter that exports its value. So the script alone defines the sweep. It runs under any
sbatch, and the values of a task follow from its number. The last parameter changes fastest. Values are used
literally; blanks and quotes in them have no special meaning. The module uses only the standard library,
because the command line imports it.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.directives import BLANKS, script_parts

MARK = "# sweep: "
MAX_TASKS = 100_000
"""Maximum number of tasks of a sweep, which is the usual maximum size of arrays."""
MAX_TEXT_CHARACTERS = 16 * 1024
"""Maximum length of all values together. A list of files belongs into a file."""
MAX_PARAMETERS = 16
MAX_HEAD_CHARACTERS = 1024
"""Maximum length of the `#!` line in a heading. Linux reads 255 characters of it."""
MAX_CACHED_GRIDS = 64
"""Number of sweeps that may be in the queue at once. The row of each task needs its script's grid."""
SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "ash")
"""Shells that can run the lines that a sweep adds."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(\d{1,9}))?")
_RESERVED = re.compile(r"SLURM_|WARPDECK_|CUDA_|LD_|(?:PATH|HOME|USER|SHELL|IFS|PWD|TMPDIR)$")
_EXAMPLE = "write it as in: lr=0.1,0.01 seed=1..5"


class Parameter(NamedTuple):
    """A variable of the script and its values."""

    name: str
    values: tuple[str, ...]


Grid = tuple[Parameter, ...]


def parse_grid(text: str) -> Grid:
    """Parse `lr=0.1,0.01 seed=1..5 text='a b',c`; "" means no sweep. Raises UserError."""
    if len(text) > MAX_TEXT_CHARACTERS or "\n" in text:
        raise UserError(
            f"the sweep must be one line of at most {MAX_TEXT_CHARACTERS:,} characters",
            "put long lists into a file",
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"the sweep cannot be read: {error}", "close the quotes") from error
    grid = tuple(_parameter(word) for word in words)
    names = [each.name for each in grid]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"the sweep has the parameter {twice} twice", "write all of its values in one place")
    if len(grid) > MAX_PARAMETERS:
        raise UserError(f"the sweep has more than {MAX_PARAMETERS} parameters", "use fewer parameters")
    if task_count(grid) > MAX_TASKS:
        raise UserError(
            f"the sweep has {task_count(grid):,} tasks; the maximum is {MAX_TASKS:,}", "give fewer values"
        )
    return grid


def task_count(grid: Grid) -> int:
    """Return the number of tasks of the array."""
    return math.prod(len(each.values) for each in grid)


def array_of(grid: Grid) -> str:
    """Return the value of --array for the sweep."""
    return f"0-{task_count(grid) - 1}"


def values_of(grid: Grid, task: int) -> dict[str, str]:
    """Return the value of each parameter in a task."""
    found = {}
    for parameter in reversed(grid):
        task, at = divmod(task, len(parameter.values))
        found[parameter.name] = parameter.values[at]
    return dict(reversed(found.items()))


def task_parameters(script: str, task: int) -> str:
    """Return the parameter values of a task, for example "lr=0.1 seed=2"; "" if the script has no sweep.

    Parameters with the same value in all tasks are left out.
    """
    if MARK not in script:
        return ""
    grid = _grid_of(script)
    return pairs(values_of(tuple(each for each in grid if len(each.values) > 1), task)) if grid else ""


def array_parameters(script: str) -> str:
    """Return all values of the pending part of the array as they were requested, for example "lr=0.1,0.01
    seed=1..5".
    """
    return _varying(script) if MARK in script else ""


@lru_cache(maxsize=MAX_CACHED_GRIDS)
def _varying(script: str) -> str:
    grid = _grid_of(script)
    words = shlex.split(sweep_of(script)) if grid else []
    return " ".join(shlex.quote(word) for word, each in zip(words, grid, strict=True) if len(each.values) > 1)


def heading(script: str) -> str:
    """Return a short script that has the same `#!` line and the same sweep as `script`."""
    lines = script.split("\n")
    begin, end = _sweep_lines(lines, script) if MARK in script else (0, 0)
    return "\n".join([lines[0][:MAX_HEAD_CHARACTERS], *lines[begin:end], ""])


def pairs(values: Mapping[str, str]) -> str:
    """Format the values as a shell would read them."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


@lru_cache(maxsize=MAX_CACHED_GRIDS)
def _grid_of(script: str) -> Grid:
    try:
        return parse_grid(sweep_of(script))
    # The lines were edited by hand. They still have their effect, but they are no grid anymore.
    except UserError:
        return ()


def with_sweep(text: str, grid_text: str) -> str:
    """Return the script with this sweep instead of any earlier one; "" removes the sweep. Raises
    UserError.
    """
    grid = parse_grid(grid_text)
    lines = text.split("\n")
    begin, end = _sweep_lines(lines, text)
    if grid and not is_shell(lines[0] if lines else ""):
        raise UserError(
            "a sweep adds shell lines, and this script is not a shell script",
            "write a shell script that starts the program",
        )
    lines[begin:end] = [f"{MARK}{grid_text.strip()}", *_exports(grid)] if grid else []
    return "\n".join(lines)


def sweep_of(text: str) -> str:
    """Return the sweep of a script; "" if it has none or an invalid one."""
    lines = text.split("\n")
    begin, end = _sweep_lines(lines, text)
    return lines[begin].removeprefix(MARK) if end > begin else ""


def without_sweep(text: str) -> str:
    """Return the script as its author wrote it."""
    lines = text.split("\n")
    begin, end = _sweep_lines(lines, text)
    del lines[begin:end]
    return "\n".join(lines)


def substituted(line: str, values: Mapping[str, str]) -> str:
    """Return a line of the script with $name and ${name} replaced by the parameters' values."""
    names = "|".join(map(re.escape, values)) or "(?!)"
    pattern = re.compile(rf"\$(?:\{{({names})\}}|({names})(?![A-Za-z0-9_]))")
    return pattern.sub(lambda match: values[match[1] or match[2]], line)


def _parameter(word: str) -> Parameter:
    name, equals, said = word.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UserError(f"{word!r} is not a parameter of a sweep", _EXAMPLE)
    if _RESERVED.match(name):
        raise UserError(f"the parameter {name} would replace a variable of the system", "choose another name")
    values = tuple(value for piece in said.split(",") for value in _values(piece))
    if not said or "" in values:
        raise UserError(f"the parameter {name} has an empty value", _EXAMPLE)
    return Parameter(name, values)


def _values(piece: str) -> Sequence[str]:
    match = _RANGE.fullmatch(piece)
    if match is None:
        return (piece,)
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if step == 0 or last < first:
        raise UserError(f"the range {piece} is empty", "write FIRST..LAST or FIRST..LAST..STEP")
    numbers = range(first, last + 1, step)
    if len(numbers) > MAX_TASKS:
        raise UserError(
            f"the range {piece} has {len(numbers):,} values; the maximum is {MAX_TASKS:,}",
            "give fewer values",
        )
    return tuple(str(number) for number in numbers)


def _exports(grid: Grid) -> list[str]:
    """Return one export line per parameter, which selects its value by the corresponding digit of the task's
    number.
    """
    lines, divisor = [], 1
    for parameter in reversed(grid):
        values = " ".join(shlex.quote(value) for value in parameter.values)
        at = f"$((SLURM_ARRAY_TASK_ID / {divisor} % {len(parameter.values)} + 1))p"
        lines.append(f'export {parameter.name}="$(printf \'%s\\n\' {values} | sed -n "{at}")"')
        divisor *= len(parameter.values)
    return lines[::-1]


def _sweep_lines(lines: Sequence[str], text: str) -> tuple[int, int]:
    """Return the range of lines of the sweep, or where it would be: below the last #SBATCH line, else below
    the #! line.
    """
    directives = script_parts(text)[-1].directives
    begin = directives[-1].number if directives else int(text.lstrip(BLANKS).startswith("#!"))
    if begin >= len(lines) or not lines[begin].startswith(MARK):
        return begin, begin
    try:
        grid = parse_grid(lines[begin].removeprefix(MARK))
    except UserError:
        return begin, begin
    end = begin + 1
    while end < len(lines) and any(lines[end].startswith(f'export {each.name}="$(printf ') for each in grid):
        end += 1
    return begin, end


def is_shell(first: str) -> bool:
    """Return whether the first line of a script names a shell."""
    words = first.removeprefix("#!").split()
    if words and posixpath.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return first.startswith("#!") and bool(words) and posixpath.basename(words[0]) in SHELLS
