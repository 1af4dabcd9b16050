"""`scontrol show hostnames|hostlist|hostlistsorted`: reads and writes Slurm's hostlists as scontrol does.

Every script for several nodes uses these commands. They are in this package so that a program on a node can
answer them without a controller. Order and repetition are kept: "a3,a1,a2" becomes "a[3,1-2]". This module
imports the standard library only. Its behavior was measured against scontrol 22.05.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, TextIO, Tuple

MAX_RANGE = 65_536
"""The most names in one range, as in Slurm."""
MAX_NAMES = 1_000_000
ADDRESSES = "WARPDECK_ADDRESSES"
"""Environment variable with the addresses of a job's nodes, for example "gpu1=10.0.0.7 gpu2=10.0.0.8"."""
RESOLVE_S = 5.0
"""Total time for resolving names. Afterwards, nodes with unresolved names are printed as addresses."""
MAX_FILE_BYTES = 16 * 2**20
LEAST = {"hostnames": 5, "hostlistsorted": 9, "hostlist": 5}
"""Minimum length of an abbreviation of each entity, in the order in which the entities are tried."""
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.DOTALL)
Run = Tuple[int, int, int]
"""Width of the number in digits, first number, last number."""


class HostlistError(ValueError):
    """An invalid hostlist.

    Its text is scontrol's message on standard error before "Invalid hostlist"; it may be "".
    """


def entity(word: str) -> str:
    """Return the entity that a possibly abbreviated word means, or "" for none."""
    lowered = word.lower()
    for name, least in LEAST.items():
        if len(lowered) >= least and name.startswith(lowered):
            return name
    return ""


def show(arguments: Sequence[str], env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run `scontrol show` for one of the entities and return the exit code.

    `arguments` is the entity and optionally a list.
    """
    kind = entity(arguments[0])
    text = arguments[1] if len(arguments) > 1 else None
    if kind != "hostnames":
        return _show_list(text, out, err, in_order=kind == "hostlist")
    if text is None:
        text = env.get("SLURM_NODELIST") or env.get("SLURM_JOB_NODELIST")
    if not text:
        if text is None:
            err.write("scontrol: error: host list is empty\n")
        return 0
    try:
        names = expand(text)
        wrong = _unreachable(names, env.get(ADDRESSES, ""), own=env.get("SLURMD_NODENAME", ""))
        out.writelines(wrong.get(name, name) + "\n" for name in names)
    except HostlistError as error:
        _refuse(error, text, err)
    return 0


def _unreachable(names: Sequence[str], addresses: str, *, own: str) -> Dict[str, str]:
    """Return {name: address} of the nodes with a name that does not resolve to their address on this machine.

    `addresses` is the value of the variable ADDRESSES. A machine always resolves its own name, even if no other
    machine does. So `own` counts as right only if the names of all other nodes are right.
    """
    known = dict(entry.partition("=")[::2] for entry in addresses.split())
    known_names = [name for name in dict.fromkeys(names) if name in known]
    if not known_names:
        return {}
    import time  # Imported here because few callers need it, and the import costs the others milliseconds.

    wrong: Dict[str, str] = {}
    deadline = time.monotonic() + RESOLVE_S
    for name in known_names:
        if time.monotonic() > deadline or not _leads_to(name, known[name]):
            wrong[name] = known[name]
    if wrong and own in known_names:
        wrong[own] = known[own]
    return wrong


def _leads_to(name: str, address: str) -> bool:
    """Return whether the name resolves to that address.

    If the address is itself a name that does not resolve, any result counts.
    """
    found, wanted = _resolved(name), _resolved(address)
    return bool(found & wanted) if wanted else bool(found)


def _resolved(name: str) -> Set[str]:
    try:
        import socket

        return {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except (
        OSError,
        UnicodeError,
        ImportError,
    ):  # ImportError occurs when the controller runs commands in a process without file access.
        return set()


def _show_list(text: Optional[str], out: TextIO, err: TextIO, *, in_order: bool) -> int:
    if text is None:
        err.write("invalid encode argument\n")
        return 1
    try:
        names = expand(_read(text) if text.startswith("/") else text)
    except OSError as error:
        err.write(f"Error opening {text}: {error.strerror}\n")
        return 1
    except HostlistError as error:
        _refuse(error, text, err)
        return 0
    out.write((collapse(names) if in_order else collapse_sorted(names)) + "\n")
    return 0


def _refuse(error: HostlistError, text: str, err: TextIO) -> None:
    if str(error):
        err.write(f"scontrol: error: {error}\n")
    err.write(f"Invalid hostlist: {text}\n")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(MAX_FILE_BYTES)


def expand(text: str) -> List[str]:
    """Return all names of a hostlist, in order. Raises HostlistError."""
    names: List[str] = []
    for part in _split(text):
        sections = _BRACKETS.split(part)
        if len(sections) > 1 and sections[-1]:
            raise HostlistError("")  # a name must not continue after its last bracket
        pieces = [_numbers(section) if at % 2 else [section] for at, section in enumerate(sections)]
        if len(names) + math.prod(len(piece) for piece in pieces) > MAX_NAMES:
            raise HostlistError(f"Too many hosts in `{part}'")
        names.extend("".join(chosen) for chosen in itertools.product(*pieces))
    return names


def _split(text: str) -> List[str]:
    """Split at commas and blanks outside of brackets, and omit empty parts."""
    parts: List[str] = []
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if not depth and (letter == "," or letter.isspace()):
            parts.append(part)
            part = ""
        else:
            part += letter
    return [each for each in (*parts, part) if each]


def _numbers(ranges: str) -> List[str]:
    found: List[str] = []
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and len(last) <= 18) or int(last) < int(first):
            raise HostlistError(f"_parse_single_range: Invalid range: `{piece}'")
        if int(last) - int(first) >= MAX_RANGE:
            raise HostlistError(f"_parse_single_range: Too many hosts in range `{piece}'")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return found


def collapse(names: Iterable[str]) -> str:
    """Return the hostlist of the names in their order.

    Adjacent names with the same prefix share one bracket.
    """
    return _joined(_parts(name) for name in names)


def collapse_sorted(names: Iterable[str]) -> str:
    """Return the hostlist of the names, sorted by prefix and number. Repeated names stay repeated."""
    found = sorted((_parts(name) for name in names), key=lambda parts: (parts[0], _key(parts[1])))
    return _joined(found)


def _key(number: Optional[Tuple[int, int]]) -> Tuple[int, int]:
    """Return the sort key of a number: its width, then its value.

    A name without a number sorts before names with one.
    """
    return number or (0, 0)


def _joined(names: Iterable[Tuple[str, Optional[Tuple[int, int]]]]) -> str:
    hostlist: List[str] = []
    for (prefix, plain), group in itertools.groupby(names, key=lambda parts: (parts[0], parts[1] is None)):
        members = list(group)
        hostlist += (
            [prefix] * len(members) if plain else [_bracket(prefix, _runs(each for _, each in members))]
        )
    return ",".join(hostlist)


def _parts(name: str) -> Tuple[str, Optional[Tuple[int, int]]]:
    """Return (prefix, (width, number)) of a name that ends with a number, or (name, None) of another name."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], (len(match[2]), int(match[2]))) if match else (name, None)


def _runs(numbers: Iterable[Optional[Tuple[int, int]]]) -> List[Run]:
    runs: List[Run] = []
    for each in numbers:
        assert each is not None
        width, number = each
        if runs and number == runs[-1][2] + 1 and _same_width(runs[-1][0], width, number):
            runs[-1] = (runs[-1][0], runs[-1][1], number)
        else:
            runs.append((width, number, number))
    return runs


def _same_width(width: int, other: int, number: int) -> bool:
    """Return whether a range of `width` digits can continue with `number` of `other` digits.

    Examples: 9 can continue with 10, and 09 with 10, but 9 cannot continue with 010.
    """
    return len(f"{number:0{width}d}") == other


def _bracket(prefix: str, runs: Sequence[Run]) -> str:
    ranges = [_run(*run) for run in runs]
    return prefix + (ranges[0] if len(ranges) == 1 and runs[0][1] == runs[0][2] else f"[{','.join(ranges)}]")


def _run(width: int, first: int, last: int) -> str:
    return f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
