"""What an agent may say of each field: far more than any node has, and little enough that a node which lies does no harm.

Counts are added up over nodes in 64-bit integers and floats; texts and lists are kept in memory and in the store. The bounds hold
by the names of fields, which mean the same in every message. msgspec checks them while it decodes, at no cost: for that it needs
classes with its own annotations, which are made here of the agent's, and whose values are as good as the agent's.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

MAX_TEXT_CHARS = 128 * 1024
"""A path has 4,096 bytes at most, and the last words of an MPI program twice 32 KiB."""
MAX_NAME_CHARS = 1024
MAX_ITEMS = 128 * 1024
"""More than a step has tasks."""
MAX_GPUS = 256
"""Of a node: parts of GPUs count."""
MAX_KEYS = 64
"""Of what is kept by a name, such as the users on a GPU."""
MAX_CPUS = 64 * 1024
"""Eight times what Linux can have."""
MAX_MEM_BYTES = 2**48
"""256 TiB: of ten thousand such nodes the sum is no problem yet."""
MAX_DISK_BYTES = 2**60
MAX_NUMBER = 2**53
"""Up to here integers are the same in every language, and in a float."""
MAX_AMOUNT = 1e18
MAX_TIME_UNIX = 2.0**35
"""In the year 3058: later ones are no dates to some programs."""
MAX_USE = 1e15
"""Seconds, and joules: what a million GPUs use in a year."""

_INTEGER = Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)
_FLOAT = Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)
_TIME = Meta(ge=0, le=MAX_TIME_UNIX)
_TEXT = Meta(max_length=MAX_TEXT_CHARS)
_ITEMS = Meta(max_length=MAX_ITEMS)
_NAME = Meta(max_length=MAX_NAME_CHARS)
_NUMBER = Meta(ge=0, le=MAX_NUMBER)
_MEM = Meta(ge=0, le=MAX_MEM_BYTES)
_USE = Meta(ge=0, le=MAX_USE)
_BOUNDS: dict[str, Meta] = {
    **dict.fromkeys(("hostname", "boot_id", "address", "driver", "kernel", "arch", "python", "uuid"), _NAME),
    **dict.fromkeys(
        ("name", "check", "state", "phase", "cause", "user", "build", "bus_id", "isolation"), _NAME
    ),
    **dict.fromkeys(("strength", "tree", "command"), _NAME),
    **dict.fromkeys(
        ("job_id", "restarts", "step", "rank", "number", "stream", "ask", "size", "pid"), _NUMBER
    ),
    **dict.fromkeys(("offset", "size_bytes", "probe"), _NUMBER),
    **dict.fromkeys(("cpus", "sockets", "cores_per_socket", "threads_per_core"), Meta(ge=0, le=MAX_CPUS)),
    **dict.fromkeys(("mem_bytes", "mem_used_bytes", "unexplained_bytes"), _MEM),
    **dict.fromkeys(("peak_mem_bytes", "mem_peak_bytes"), _MEM),
    **dict.fromkeys(("cpu_seconds", "system_s", "seconds", "busy_s", "idle_s", "energy_j"), _USE),
    **dict.fromkeys(("numa_node", "island"), Meta(ge=-1, le=MAX_CPUS)),
    "tmp_disk_bytes": Meta(ge=0, le=MAX_DISK_BYTES),
    "port": Meta(ge=0, le=65_535),
    "index": Meta(ge=0, le=MAX_NUMBER),
}
_LISTS = dict.fromkeys(("gpus", "strangers"), Meta(max_length=MAX_GPUS))
_KEYS = Meta(max_length=MAX_KEYS)
_PAIR = Meta(min_length=2, max_length=2)
"""Of the lists in a list: a launch."""
_MADE: dict[type, type] = {}


def bounded(kind: type) -> type:
    """The class of these messages whose values msgspec takes only within the bounds. Each is one of `kind`, and equal to it."""
    made = _MADE.get(kind)
    if made is None:
        hints = {name: _within(name, hint) for name, hint in get_type_hints(kind).items()}
        made = _MADE[kind] = type(
            kind.__name__, (kind,), {"__annotations__": hints, "__eq__": _same, "__hash__": kind.__hash__}
        )
    return made


def _within(name: str, hint: Any, *, inner: bool = False) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union:
        return Union[tuple(_within(name, each) for each in args)]  # noqa: UP007  # made, not written
    if origin is list:
        item = _within(name, args[0], inner=True)
        return Annotated[list[item], _PAIR if inner else _LISTS.get(name, _ITEMS)]  # type: ignore[valid-type]
    if origin is dict:
        key, value = Annotated[str, _NAME], _within(name, args[1])
        return Annotated[dict[key, value], _KEYS]  # type: ignore[valid-type]
    if hint is int:
        return Annotated[int, _BOUNDS.get(name, _INTEGER)]
    if hint is float:
        is_time = name.endswith(("_unix", "_at"))
        return Annotated[float, _TIME if is_time else _BOUNDS.get(name, _FLOAT)]
    if hint is str:
        return Annotated[str, _BOUNDS.get(name, _TEXT)]
    return bounded(hint) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else hint


def _same(self: Any, other: object) -> bool:
    base: Any = type(self).__base__
    return isinstance(other, base) and all(
        getattr(self, each.name) == getattr(other, each.name) for each in dataclasses.fields(base)
    )
