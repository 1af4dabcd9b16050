"""Distribution and binding of tasks as Slurm reads them: --distribution, --gpu-bind, --mem-bind, --cpu-bind, --hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.notation.values.numbers import INT_MAX, LONG_MAX, strtol
from warpdeck.notation.values.slurm_error import SlurmError, invalid

from .bind_help import answer

_LEVEL = {"cyclic", "block", "fcyclic"}
_DISTRIBUTION_HINT = "write such as block, cyclic or block:cyclic"


class Distribution(NamedTuple):
    """The value of --distribution: its canonical text, and the size of plane=SIZE or 0."""

    text: str
    plane_size: int = 0


def read_distribution(text: str, plane_size: str) -> Distribution:
    """Return the value of --distribution. `plane_size` is the value of SLURM_DIST_PLANESIZE. Raises SlurmError."""
    if text[:5].lower() == "plane":
        return Distribution("plane", _plane(text, plane_size))
    if not text or text.startswith(","):
        raise invalid("distribution", _DISTRIBUTION_HINT)
    first, _, flags = text.lstrip(",").partition(",")
    base = _base([level for level in first.split(":") if level])
    flag = ""
    if base in ("pack", "nopack"):
        base, flag = "", base
    if flags:
        flag = flags.lower()
        if flag not in ("pack", "nopack"):
            raise invalid("distribution", _DISTRIBUTION_HINT)
        if not base and "," in text and first.lower() != flag:
            return Distribution(
                ""
            )  # If a flag is given in both places and they differ, neither has an effect.
    return Distribution(",".join(word for word in (base, flag) if word))


def _plane(text: str, plane_size: str) -> int:
    _, equals, size = text.partition("=")
    number, rest = strtol(size if equals else plane_size)
    if rest or not 0 < number <= INT_MAX:
        more = ("error: Invalid plane size or size not specified",)
        raise invalid("distribution", "write plane=SIZE", *more)
    return number


def _base(levels: list[str]) -> str:
    """Return the distribution over nodes, sockets and cores. "*" is the default of each level."""
    if len(levels) > 3:
        raise invalid("distribution", _DISTRIBUTION_HINT)
    words: list[str] = []
    for at, level in enumerate(levels):
        usual = ("block", "cyclic", words[1] if at == 2 else "")[at]
        words.append(usual if level == "*" else level.lower())
    joined = ":".join(words)
    if joined in ("arbitrary", "hostfile"):
        return "arbitrary"
    if joined in ("pack", "nopack"):
        return joined
    if not words or words[0] == "fcyclic" or not set(words) <= _LEVEL:
        raise invalid("distribution", _DISTRIBUTION_HINT)
    return joined


_GPU_BIND_HINT = "write closest, none, single:N, per_task:N or map_gpu:0,1"


def check_gpu_bind(text: str) -> None:
    """Check --gpu-bind. Several bindings are separated by semicolons, and all must be about GPUs. Raises
    SlurmError.
    """
    for piece in filter(None, f"gpu:{text}".split(";")):
        more = _fault_of(piece[4:]) if piece.startswith("gpu:") else ()
        if more is not None:
            raise SlurmError(f"Invalid --gpu-bind argument: gpu:{text}", _GPU_BIND_HINT, more=more)


def _fault_of(text: str) -> tuple[str, ...] | None:
    """Return the error lines for an invalid binding; None if it is valid."""
    word = text.lower().removeprefix("verbose,")
    if word[:1] in ("c", "n"):
        return None
    for name, base in (("map_gpu:", 10), ("mask_gpu:", 16)):
        if word.startswith(name):
            return _fault_of_numbers(text[len(text) - len(word) + len(name) :], base)
    for name in ("per_task:", "single:"):
        if word.startswith(name):
            return None if _is_count(word.removeprefix(name)) else ()
    return ()


def _is_count(text: str) -> bool:
    number, _ = strtol(text)
    return 0 <= number < LONG_MAX


def _fault_of_numbers(text: str, base: int) -> tuple[str, ...] | None:
    digits = "[0-9]" if base == 10 else "[0-9a-fA-F]"
    pattern = re.compile(rf"{digits}*(?:\*[0-9]*)?")
    for item in filter(None, text.split(",")):
        word = item.removeprefix("0x") if base == 16 else item
        match = pattern.match(word)
        bad = word[match.end() :][:1] if match is not None else ""
        if bad:
            said = f"error: Failed to validate {word}, offending character is {bad}"
            return () if bad == "*" else (said,)
    return None


_ORDER = ("verbose", "prefer", "sort", "none", "rank", "local", "map_mem", "mask_mem")
_PLACES = frozenset({"none", "rank", "local", "map_mem", "mask_mem"})
_FLAGS = {"p": "prefer", "prefer": "prefer", "sort": "sort", "v": "verbose", "verbose": "verbose"}
_UNFLAGS = {"nosort": "sort", "q": "verbose", "quiet": "verbose"}
_NAMES = {"no": "none", "none": "none", "rank": "rank", "local": "local"}


class MemBindWord(NamedTuple):
    """One word of --mem-bind. It adds or removes a flag, or sets a kind of binding with its list of numbers."""

    name: str
    adds: bool = True
    numbers: str = ""


def mem_bind(text: str) -> list[MemBindWord]:
    """Return the words of --mem-bind. Raises SlurmError."""
    return [_mem_bind_word(item) for item in _items(text)]


def _mem_bind_word(item: str) -> MemBindWord:
    word = item.lower()
    if word in _FLAGS or word in _NAMES:
        return MemBindWord(_FLAGS.get(word) or _NAMES[word])
    if word in _UNFLAGS:
        return MemBindWord(_UNFLAGS[word], adds=False)
    if word.startswith(("map_mem", "mapmem", "mask_mem", "maskmem")):
        kind = "mask_mem" if word.startswith("mask") else "map_mem"
        return MemBindWord(kind, numbers=_list_of(item, kind, "mem-bind"))
    if word == "help":
        raise answer("mem-bind")
    raise SlurmError(f'unrecognized --mem-bind argument "{item}"', "write such as local or none")


def merged_mem_bind(words: Sequence[MemBindWord], types: frozenset[str]) -> tuple[str, frozenset[str]]:
    """Return (list of a map or mask, kinds and flags) after the words were added to earlier kinds and flags."""
    numbers = ""
    for word in words:
        if word.name in _PLACES:
            types, numbers = types - _PLACES | {word.name}, word.numbers
        else:
            types = types | {word.name} if word.adds else types - {word.name}
    return numbers, types


def mem_bind_text(numbers: str, types: frozenset[str]) -> str:
    """Return the canonical text of a memory binding."""
    if not types:
        return "unset"
    kinds = ",".join(kind for kind in _ORDER if kind in types)
    return f"{kinds}:{numbers}" if numbers else kinds


def _items(text: str) -> list[str]:
    """Split at commas, except those inside a list of numbers."""
    return re.sub(r",(?!\d|[0-9a-fA-F]*(,|$))", ";", text).split(";")


def _list_of(item: str, kind: str, option: str) -> str:
    pieces = re.split("[:=]", item, maxsplit=2)
    if len(pieces) < 2 or not pieces[1]:
        raise SlurmError(f'missing list for "--{option}={kind}:<list>"', f"write {kind}:0,1")
    mask = kind.startswith("mask")
    digit = r"[^0-9a-fA-F]" if mask else r"\D"
    found: list[str] = []
    for number in filter(None, pieces[1].split(",")):
        digits, star, times = (number.removeprefix("0x") if mask else number).partition("*")
        for word, bad in ((star + times, re.search(r"\D", times)), (digits, re.search(digit, digits))):
            if bad is not None:
                words = f"Failed to validate number: {word}, the offending character is {bad[0]}"
                raise SlurmError(words, "write numbers")
        count, _ = strtol(times) if star else (1, "")
        if not 0 < count < LONG_MAX:
            raise SlurmError(f"Invalid {kind} multiplier: {times}", "write NUMBER*COUNT")
        found += [digits] * min(count, 4096)
    return ",".join(found)


_CPU_LISTS = ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom")
_BY_RANK = frozenset({"no", "none", "rank", "rank_ldom"})
_BY_PART = frozenset({"cores", "ldoms", "one_thread", "sockets", "threads"})
_HOW_LOUD = frozenset({"v", "verbose", "q", "quiet"})


class CpuBinding(NamedTuple):
    """The value of --cpu-bind."""

    kind: str
    """none, rank, cores, ..., or map_cpu, mask_cpu, ... with `numbers`; "" if only a verbosity was given."""
    numbers: str
    verbose: bool
    shown: str
    """The text that srun shows: the list of a map or mask, "(null)" for a binding by rank, else the given text."""


def cpu_bind(text: str) -> CpuBinding:
    """Return the value of --cpu-bind. Raises SlurmError."""
    kind, numbers, verbose, shown = "", "", False, text
    for item in _items(text):
        word = item.lower()
        mapped = next((kind for kind in _CPU_LISTS if word.startswith((kind, kind.replace("_", "")))), "")
        if mapped:
            kind, numbers = mapped, _list_of(item, mapped, "cpu-bind")
            shown = numbers
        elif word in _BY_RANK:
            kind, numbers, shown = "none" if word == "no" else word, "", "(null)"
        elif word in _BY_PART:
            kind, numbers = word, ""
        elif word in _HOW_LOUD:
            verbose = word[0] == "v"
        else:
            hint = "write none, cores, rank, map_cpu:0,1 or mask_cpu:0x3,0xc"
            raise SlurmError(f'unrecognized --cpu-bind argument "{item}"', hint)
    return CpuBinding(kind, numbers, verbose, shown)


def binds(text: str) -> bool:
    """Return whether --cpu-bind specifies a binding, and not only a verbosity (quiet or verbose)."""
    return any(item.lower() not in _HOW_LOUD for item in _items(text)) if text else False


def cpu_bind_variables(binding: CpuBinding) -> dict[str, str]:
    """Return the variables that tasks get for --cpu-bind; {} if only quiet was given."""
    kind = "" if binding.kind == "one_thread" else binding.kind
    if kind in _CPU_LISTS:
        kind += ":"
    return _bind_variables("SLURM_CPU_BIND", kind, binding.numbers, verbose=binding.verbose)


def mem_bind_variables(words: Sequence[MemBindWord]) -> dict[str, str]:
    """Return the variables that tasks get for --mem-bind."""
    numbers, types = merged_mem_bind(words, frozenset())
    kind = next((f"{name}:" if numbers else name for name in _ORDER if name in types & _PLACES), "")
    made = _bind_variables("SLURM_MEM_BIND", kind, numbers, verbose="verbose" in types)
    if made and "prefer" in types:
        made["SLURM_MEM_BIND"] = made["SLURM_MEM_BIND"].replace(",", ",prefer,", 1)
    flags = {"prefer": ("SLURM_MEM_BIND_PREFER", "prefer"), "sort": ("SLURM_MEM_BIND_SORT", "sort")}
    return made | dict(flags[flag] for flag in flags if flag in types)


def _bind_variables(name: str, kind: str, numbers: str, *, verbose: bool) -> dict[str, str]:
    """Return the four variables of a binding: the whole and its parts; {} if there is no binding."""
    if not kind and not verbose:
        return {}
    loud = "verbose" if verbose else "quiet"
    whole = ",".join(word for word in (loud, f"{kind}{numbers}") if word)
    return {name: whole, f"{name}_VERBOSE": loud, f"{name}_TYPE": kind, f"{name}_LIST": numbers}


ONE_THREAD = frozenset({"compute_bound", "memory_bound", "nomultithread"})
"""Values of --hint with which a job uses one thread of each core."""
_HINTS = ONE_THREAD | {"multithread"}
ANY_NUMBER = 65_535
"""Slurm's value that means "as many as there are" for counts of threads or tasks per core."""


def hint_words(text: str) -> list[str]:
    """Return the words of --hint, split at commas except before a digit. Raises SlurmError."""
    return [_hint_word(word) for word in re.split(r";|,(?!\d)", text)]


def _hint_word(word: str) -> str:
    if word.lower() == "help":
        raise answer("hint")
    if word.lower() not in _HINTS:
        raise SlurmError(
            f'unrecognized --hint argument "{word}", see --hint=help',
            "write compute_bound, memory_bound, multithread or nomultithread",
        )
    return word.lower()
