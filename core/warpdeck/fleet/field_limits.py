"""Limits on the fields of an agent's messages.

Values within the limits can do no harm, even if the node is malicious, and no real node reaches them. Counts
are summed over nodes in 64-bit integers and floats; texts and lists are kept in memory and in the store.

The limits are keyed by field names, which have the same meaning in every message. msgspec checks them during
decoding at no extra cost. It needs classes with annotated types for that. These classes are derived from the
agent's classes, and their instances are also instances of the agent's classes.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

MAX_TEXT_CHARS = 128 * 1024
"""A path has at most 4,096 bytes, and the captured output of a failed MPI program at most twice 32 KiB."""
MAX_NAME_CHARS = 1024
MAX_ITEMS = 128 * 1024
"""Larger than the number of tasks in a step."""
MAX_GPUS = 256
"""Maximum number of GPUs of a node; partitions of a GPU count separately."""
MAX_KEYS = 64
"""Maximum number of keys in a dictionary, such as the users on a GPU."""
MAX_CPUS = 64 * 1024
"""Eight times the maximum of Linux."""
MAX_MEM_BYTES = 2**48
"""256 TiB. Even the sum over ten thousand nodes of this size causes no overflow."""
MAX_DISK_BYTES = 2**60
MAX_NUMBER = 2**53
"""Up to this value integers are the same in every language and in a float."""
MAX_AMOUNT = 1e18
MAX_TIME_UNIX = 2.0**35
"""A time in the year 3058. Some programs do not accept later dates."""
MAX_USE = 1e15
"""Seconds or joules: the amount that a million GPUs use in a year."""

_INTEGER = Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)
_FLOAT = Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)
_TIME = Meta(ge=0, le=MAX_TIME_UNIX)
_TEXT = Meta(max_length=MAX_TEXT_CHARS)
_ITEMS = Meta(max_length=MAX_ITEMS)
_NAME = Meta(max_length=MAX_NAME_CHARS)
_NUMBER = Meta(ge=0, le=MAX_NUMBER)
_MEM = Meta(ge=0, le=MAX_MEM_BYTES)
_USE = Meta(ge=0, le=MAX_USE)
_FIELD_LIMITS: dict[str, Meta] = {
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
"""A list inside a list is a pair that names a launch."""
_LIMITED_CLASSES: dict[type, type] = {}


def with_field_limits(kind: type) -> type:
    """Return a subclass of a message class. msgspec refuses to decode its fields beyond the limits.

    Its instances are instances of `kind` and compare equal to those of `kind`.
    """
    limited = _LIMITED_CLASSES.get(kind)
    if limited is None:
        hints = {name: _limited_type(name, hint) for name, hint in get_type_hints(kind).items()}
        limited = _LIMITED_CLASSES[kind] = type(
            kind.__name__,
            (kind,),
            {"__annotations__": hints, "__eq__": _equal_fields, "__hash__": kind.__hash__},
        )
    return limited


def _limited_type(name: str, hint: Any, *, inner: bool = False) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union:
        return Union[tuple(_limited_type(name, each) for each in args)]  # noqa: UP007  # made, not written
    if origin is list:
        item = _limited_type(name, args[0], inner=True)
        return Annotated[list[item], _PAIR if inner else _LISTS.get(name, _ITEMS)]  # type: ignore[valid-type]
    if origin is dict:
        key, value = Annotated[str, _NAME], _limited_type(name, args[1])
        return Annotated[dict[key, value], _KEYS]  # type: ignore[valid-type]
    if hint is int:
        return Annotated[int, _FIELD_LIMITS.get(name, _INTEGER)]
    if hint is float:
        is_time = name.endswith(("_unix", "_at"))
        return Annotated[float, _TIME if is_time else _FIELD_LIMITS.get(name, _FLOAT)]
    if hint is str:
        return Annotated[str, _FIELD_LIMITS.get(name, _TEXT)]
    return with_field_limits(hint) if dataclasses.is_dataclass(hint) and isinstance(hint, type) else hint


def _equal_fields(self: Any, other: object) -> bool:
    base: Any = type(self).__base__
    return isinstance(other, base) and all(
        getattr(self, each.name) == getattr(other, each.name) for each in dataclasses.fields(base)
    )
