"""`scontrol show hostnames|hostlist|hostlistsorted`: Slurm's hostlists as scontrol itself reads and writes them.

Every script for several nodes uses it, so it is here, where a node's own program finds it without a controller. Order and
repetition are kept: "a3,a1,a2" is "a[3,1-2]". Standard library only. Measured against scontrol 22.05.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, TextIO, Tuple

MAX_RANGE = 65_536
"""Names of one range, as in Slurm."""
MAX_NAMES = 1_000_000
ADDRESSES = "WARPDECK_ADDRESSES"
"""Tells a job where its nodes are reached: "gpu1=10.0.0.7 gpu2=10.0.0.8"."""
RESOLVE_S = 5.0
"""Names are looked up for no longer than this; nodes whose names were not looked up by then are told by their addresses."""
MAX_FILE_BYTES = 16 * 2**20
LEAST = {"hostnames": 5, "hostlistsorted": 9, "hostlist": 5}
"""Entity -> letters of it that must be written, in the order in which they are tried."""
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.DOTALL)
Run = Tuple[int, int, int]
"""Width, first, last."""


class HostlistError(ValueError):
    """`str()` is what scontrol writes to standard error before it says that the list is none; it may be ""."""


def entity(word: str) -> str:
    """Which of them a word, perhaps shortened, means; "" is none."""
    lowered = word.lower()
    for name, least in LEAST.items():
        if len(lowered) >= least and name.startswith(lowered):
            return name
    return ""


def show(words: Sequence[str], env: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Runs `scontrol show` for one of them: the entity and perhaps a list. The value is the exit code."""
    kind = entity(words[0])
    text = words[1] if len(words) > 1 else None
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


def _unreachable(names: Sequence[str], told: str, *, own: str) -> Dict[str, str]:
    """Name -> address of the nodes to which their names do not lead from here.

    A machine resolves its own name, be it alone in doing so. So `own` counts as right only if the names of all others are right.
    """
    known = dict(word.partition("=")[::2] for word in told.split())
    asked = [name for name in dict.fromkeys(names) if name in known]
    if not asked:
        return {}
    import time  # few need these, and they cost the others milliseconds

    wrong: Dict[str, str] = {}
    deadline = time.monotonic() + RESOLVE_S
    for name in asked:
        if time.monotonic() > deadline or not _leads_to(name, known[name]):
            wrong[name] = known[name]
    if wrong and own in asked:
        wrong[own] = known[own]
    return wrong


def _leads_to(name: str, address: str) -> bool:
    """Whether the name resolves to that address; to any where the address is a name that does not resolve itself."""
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
    ):  # the last where the controller runs commands, without any files
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
    """All names, in order. Raises HostlistError."""
    names: List[str] = []
    for part in _split(text):
        words = _BRACKETS.split(part)
        if len(words) > 1 and words[-1]:
            raise HostlistError("")  # a name does not go on behind its last bracket
        pieces = [_numbers(word) if at % 2 else [word] for at, word in enumerate(words)]
        if len(names) + math.prod(len(piece) for piece in pieces) > MAX_NAMES:
            raise HostlistError(f"Too many hosts in `{part}'")
        names.extend("".join(chosen) for chosen in itertools.product(*pieces))
    return names


def _split(text: str) -> List[str]:
    """At commas and blanks outside brackets; what is empty is left out."""
    parts: List[str] = []
    depth, word = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if not depth and (letter == "," or letter.isspace()):
            parts.append(word)
            word = ""
        else:
            word += letter
    return [part for part in (*parts, word) if part]


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
    """The list of names in their order; neighbours of one prefix share a bracket."""
    return _joined(_parts(name) for name in names)


def collapse_sorted(names: Iterable[str]) -> str:
    """The list by prefix and number. Names that are there twice stay twice."""
    found = sorted((_parts(name) for name in names), key=lambda parts: (parts[0], _key(parts[1])))
    return _joined(found)


def _key(number: Optional[Tuple[int, int]]) -> Tuple[int, int]:
    """Numbers by width and value; a name without one comes before those with one."""
    return number or (0, 0)


def _joined(names: Iterable[Tuple[str, Optional[Tuple[int, int]]]]) -> str:
    words: List[str] = []
    for (prefix, plain), group in itertools.groupby(names, key=lambda parts: (parts[0], parts[1] is None)):
        members = list(group)
        words += [prefix] * len(members) if plain else [_bracket(prefix, _runs(each for _, each in members))]
    return ",".join(words)


def _parts(name: str) -> Tuple[str, Optional[Tuple[int, int]]]:
    """(prefix, (width, number)) of a name that ends with a number; else the name and None."""
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
    """Whether a run of that width goes on with a number of the other: 9, 10 do, 09, 10 do, 9, 010 do not."""
    return len(f"{number:0{width}d}") == other


def _bracket(prefix: str, runs: Sequence[Run]) -> str:
    words = [_run(*run) for run in runs]
    return prefix + (words[0] if len(words) == 1 and runs[0][1] == runs[0][2] else f"[{','.join(words)}]")


def _run(width: int, first: int, last: int) -> str:
    return f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
