"""Parses the resource lists of #PBS -l like sbatch 22.05.

NAME=VALUE is searched at every character, so `xmem=4gb` requests memory, and unknown names are skipped
character by character. A value ends at a comma. The values of PBS Pro's chunks (select, ncpus, mpiprocs) end
only at a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from warpdeck.notation.values.numbers import MAX_DIGITS, count, int32, strtol

from .option_mapping import NO_EFFECT, MappedOption, ValueOf, joined

_RESOURCE = re.compile(
    r"((?i:accelerator|mpiprocs|naccelerators|ncpus|select)|arch|cput|file|host|mem|nice|nodes|opsys|other|pcput|pmem|proc"
    r"|pvmem|software|vmem|walltime)="
)
_CHUNKS = {"mpiprocs": "ntasks-per-node", "ncpus": "mincpus", "select": "nodes"}
_TIMES = frozenset({"cput", "pcput", "walltime"})
_SIZES = {"file": "tmp", "mem": "mem"}


def resources(text: str, value_of: ValueOf) -> Iterator[MappedOption]:
    """Iterate over the requests of a list, then over remarks about parts without effect. Raises SlurmError."""
    at, gpus = 0, 0
    chunk: dict[str, int] = {}
    taken, kinds = list[tuple[int, int]](), list[str]()
    while (match := _RESOURCE.search(text, at)) is not None:
        name, at = match[1].lower(), match.end()
        if name == "accelerator":
            taken.append((match.start(), at))
            gpus = max(gpus, int(text[at : at + 4].lower() == "true"))
            continue
        value, at = _value(text, at, ":" if name in _CHUNKS else ",")
        if name == "proc":
            kinds.append(value)
        elif name == "naccelerators":
            gpus = count("", value, called=name)
        elif name in _CHUNKS:
            yield MappedOption(_CHUNKS[name], value)
            chunk[name] = int32(strtol(value)[0])
        else:
            found = list(_mapped_options(name, value, value_of))
            yield from found
            if not found and name != "nodes":
                continue
        taken.append((match.start(), at - 1))
        if name == "proc":
            # As in sbatch, the text after a "proc" value up to the next comma is ignored.
            at = _value(text, at, ",")[1]
    yield from _of_kinds(kinds, value_of)
    yield from _of_chunk(chunk)
    if gpus > 0:
        yield MappedOption("gres", joined(value_of("gres"), f"gpu:{gpus}"))
    yield from _without_effect(text, taken)


def _value(text: str, at: int, mark: str) -> tuple[str, int]:
    """Return (the value that begins there, the position of the next element)."""
    end = text.find(mark, at)
    return (text[at:], len(text) + 1) if end < 0 else (text[at:end], end + 1)


def _mapped_options(name: str, value: str, value_of: ValueOf) -> Iterator[MappedOption]:
    if name in _TIMES:
        yield MappedOption("time", value)
    elif name in _SIZES:
        yield MappedOption(_SIZES[name], value[:-1] if value[-1:] in ("b", "B") else value)
    elif name == "nice":
        yield MappedOption("nice", str(strtol(value)[0]) if value else None)
    elif name == "nodes":
        yield from _nodes(value)


def _of_kinds(kinds: list[str], value_of: ValueOf) -> Iterator[MappedOption]:
    """Return the constraint from all "proc" values, the latest first, followed by the previous constraint."""
    before = value_of("constraint")
    if kinds:
        yield MappedOption("constraint", ",".join([*reversed(kinds), *([] if before is None else [before])]))


def _of_chunk(chunk: dict[str, int]) -> Iterator[MappedOption]:
    """Divide the CPUs of a chunk that has all three values among its tasks."""
    if len(chunk) == len(_CHUNKS) and chunk["ncpus"] > chunk["mpiprocs"] > 0:
        yield MappedOption("cpus-per-task", str(chunk["ncpus"] // chunk["mpiprocs"]))


def _without_effect(text: str, taken: list[tuple[int, int]]) -> Iterator[MappedOption]:
    """Iterate over remarks about the parts of the list in which nothing was recognized."""
    left = iter([*taken, (len(text) + 1, len(text) + 1)])
    start, end = next(left)
    for part in re.finditer(r"[^,:]+", text):
        while end < part.start():
            start, end = next(left)
        if part.end() <= start:
            yield MappedOption(NO_EFFECT, f"-l {part[0]}")


_PART = re.compile(r"[0-9A-Za-z][^+:]*")


def _nodes(text: str) -> Iterator[MappedOption]:
    """Parse COUNT or NAME, :ppn=TASKS, :gpus=WHICH, joined by +. Counts and tasks are added up; any other
    word is a node's name.
    """
    nodes, tasks, gpus = 0, 0, None
    names: list[str] = []
    for match in _PART.finditer(text):
        part = match[0]
        if part.startswith("ppn="):
            at = match.start() + len("ppn=")  # As in C, a sign may replace the + between parts.
            tasks = int32(tasks + int32(strtol(text[at : at + MAX_DIGITS])[0]))
        elif part.startswith("gpus="):
            gpus = part[5:]
        elif part[0].isdigit():
            nodes = int32(nodes + int32(strtol(part)[0]))
        else:
            names.append(part)
    if nodes:
        yield MappedOption("nodes", str(nodes))
    if tasks:
        yield MappedOption("ntasks", str(int32(tasks * (nodes or 1))))
    if gpus is not None:
        yield MappedOption("gpus-per-node", gpus)
    if names:
        yield MappedOption("nodelist", _in_ranges(names))


_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)


def _in_ranges(names: list[str]) -> str:
    """Combine neighbors with the same prefix, in the given order and with repetitions: n[3,1-2],m1."""
    split = [(match[1], match[2]) if (match := _NUMBERED.fullmatch(name)) else (name, "") for name in names]
    words: list[str] = []
    for (prefix, _), members in groupby(split, key=lambda pair: (pair[0], pair[1] == "")):
        numbers = [digits for _, digits in members]
        runs = _runs(numbers)
        bare = not numbers[0] or (len(runs) == 1 and "-" not in runs[0])
        words += [f"{prefix}{number}" for number in numbers] if bare else [f"{prefix}[{','.join(runs)}]"]
    return ",".join(words)


def _runs(numbers: list[str]) -> list[str]:
    """Combine consecutive numbers of the same width into ranges."""
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if runs and number and f"{int(runs[-1][1]) + 1:0{len(runs[-1][1])}d}" == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return [first if first == last else f"{first}-{last}" for first, last in runs]
