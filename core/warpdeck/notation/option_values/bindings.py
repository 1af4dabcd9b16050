"""Task distribution and binding, as in sbatch: --distribution, --gpu-bind, --mem-bind, --cpu-bind."""

from __future__ import annotations

import re

from warpdeck.notation.values.numbers import INT_MAX, LONG_MAX, strtol
from warpdeck.notation.values.refusal import Refusal, invalid

from .bind_help import answer

_LEVEL = {"cyclic", "block", "fcyclic"}
_DISTRIBUTION_HINT = "write such as block, cyclic or block:cyclic"


def distribution(text: str, plane_size: str) -> tuple[str, int]:
    """Return (canonical text, plane size). `plane_size` is the value of the variable. Raises Refusal."""
    if text[:5].lower() == "plane":
        return "plane", _plane(text, plane_size)
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
            return "", 0  # If a flag is given in both places and they differ, neither has an effect.
    return ",".join(word for word in (base, flag) if word), 0


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
    Refusal.
    """
    for piece in filter(None, f"gpu:{text}".split(";")):
        more = _fault_of(piece[4:]) if piece.startswith("gpu:") else ()
        if more is not None:
            raise Refusal(f"Invalid --gpu-bind argument: gpu:{text}", _GPU_BIND_HINT, more=more)


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


def mem_bind(text: str, types: frozenset[str]) -> tuple[str, frozenset[str]]:
    """Return (list of a map or mask, kinds and flags so far). Raises Refusal."""
    found = ""
    for item in _items(text):
        word = item.lower()
        if word in _FLAGS:
            types |= {_FLAGS[word]}
        elif word in _UNFLAGS:
            types -= {_UNFLAGS[word]}
        elif word in _NAMES:
            types, found = types - _PLACES | {_NAMES[word]}, ""
        elif word.startswith(("map_mem", "mapmem", "mask_mem", "maskmem")):
            kind = "mask_mem" if word.startswith("mask") else "map_mem"
            types, found = types - _PLACES | {kind}, _list_of(item, kind, "mem-bind")
        elif word == "help":
            raise answer("mem-bind")
        else:
            raise Refusal(f'unrecognized --mem-bind argument "{item}"', "write such as local or none")
    return found, types


def mem_bind_text(found: str, types: frozenset[str]) -> str:
    """Return the canonical text of a memory binding."""
    if not types:
        return "unset"
    kinds = ",".join(kind for kind in _ORDER if kind in types)
    return f"{kinds}:{found}" if found else kinds


def _items(text: str) -> list[str]:
    """Split at commas, except those inside a list of numbers."""
    return re.sub(r",(?!\d|[0-9a-fA-F]*(,|$))", ";", text).split(";")


def _list_of(item: str, kind: str, option: str) -> str:
    pieces = re.split("[:=]", item, maxsplit=2)
    if len(pieces) < 2 or not pieces[1]:
        raise Refusal(f'missing list for "--{option}={kind}:<list>"', f"write {kind}:0,1")
    mask = kind.startswith("mask")
    digit = r"[^0-9a-fA-F]" if mask else r"\D"
    found: list[str] = []
    for number in filter(None, pieces[1].split(",")):
        digits, star, times = (number.removeprefix("0x") if mask else number).partition("*")
        for word, bad in ((star + times, re.search(r"\D", times)), (digits, re.search(digit, digits))):
            if bad is not None:
                words = f"Failed to validate number: {word}, the offending character is {bad[0]}"
                raise Refusal(words, "write numbers")
        count, _ = strtol(times) if star else (1, "")
        if not 0 < count < LONG_MAX:
            raise Refusal(f"Invalid {kind} multiplier: {times}", "write NUMBER*COUNT")
        found += [digits] * min(count, 4096)
    return ",".join(found)


_CPU_LISTS = ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom")
_BY_RANK = frozenset({"no", "none", "rank", "rank_ldom"})
_CPU_WORDS = frozenset({"cores", "ldoms", "one_thread", "q", "quiet", "sockets", "threads", "v", "verbose"})


def cpu_bind(text: str) -> str:
    """Return --cpu-bind as srun shows it. Raises Refusal.

    This is the list of a map or mask, "(null)" for a binding by rank, else the given text.
    """
    found = text
    for item in _items(text):
        word = item.lower()
        kind = next((kind for kind in _CPU_LISTS if word.startswith((kind, kind.replace("_", "")))), "")
        if kind:
            found = _list_of(item, kind, "cpu-bind")
        elif word in _BY_RANK:
            found = "(null)"
        elif word not in _CPU_WORDS:
            hint = "write none, cores, rank or map_cpu:0,1"
            raise Refusal(f'unrecognized --cpu-bind argument "{item}"', hint)
    return found


def binds(text: str) -> bool:
    """Return whether --cpu-bind specifies a binding, and not only a verbosity (quiet or verbose)."""
    return any(item.lower() not in _HOW_LOUD for item in _items(text)) if text else False


_HOW_LOUD = frozenset({"v", "verbose", "q", "quiet"})
_CPU_KINDS = frozenset({"none", "rank", "rank_ldom", "cores", "ldoms", "sockets", "threads"})


def cpu_bind_told(text: str) -> dict[str, str]:
    """Return the variables that tasks get for --cpu-bind; {} if only quiet was given."""
    kind, found, verbose = "", "", False
    for item in _items(text):
        word = item.lower()
        if word in _HOW_LOUD:
            verbose = word[0] == "v"
        elif word == "no" or word in _CPU_KINDS:
            kind, found = "none" if word == "no" else word, ""
        elif names := [name for name in _CPU_LISTS if word.startswith((name, name.replace("_", "")))]:
            kind, found = f"{names[0]}:", _list_of(item, names[0], "cpu-bind")
    return bind_variables("SLURM_CPU_BIND", kind, found, verbose=verbose)


def mem_bind_told(text: str) -> dict[str, str]:
    """Return the variables that tasks get for --mem-bind."""
    found, types = mem_bind(text, frozenset())
    kind = next((f"{name}:" if found else name for name in _ORDER if name in types & _PLACES), "")
    told = bind_variables("SLURM_MEM_BIND", kind, found, verbose="verbose" in types)
    if told and "prefer" in types:
        told["SLURM_MEM_BIND"] = told["SLURM_MEM_BIND"].replace(",", ",prefer,", 1)
    flags = {"prefer": ("SLURM_MEM_BIND_PREFER", "prefer"), "sort": ("SLURM_MEM_BIND_SORT", "sort")}
    return told | dict(flags[flag] for flag in flags if flag in types)


def bind_variables(name: str, kind: str, found: str, *, verbose: bool) -> dict[str, str]:
    """Return the four variables of a binding: the whole and its parts; {} if there is no binding."""
    if not kind and not verbose:
        return {}
    loud = "verbose" if verbose else "quiet"
    whole = ",".join(word for word in (loud, f"{kind}{found}") if word)
    return {name: whole, f"{name}_VERBOSE": loud, f"{name}_TYPE": kind, f"{name}_LIST": found}
