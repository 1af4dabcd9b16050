"""Minimum hardware of each node of a job: --tmp, --extra-node-info and its parts. As in Slurm, these options
only select nodes; they do not determine how much of a node the job gets.
"""

from __future__ import annotations

import re
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.values.memory_sizes import parse_memory

_LEAST = re.compile(r"\s*(\d{1,6})([kKmM]?)(-\d*[kKmM]?)?\s*")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}
_PARTS = ("sockets", "cores", "threads")


def set_tmp(resources: dict[str, Any], value: str) -> None:
    """Set the minimum size of temporary disk, --tmp=SIZE. Raises UserError."""
    _least(resources)["tmp_disk_bytes"] = parse_memory(value) or None


def set_extra(resources: dict[str, Any], value: str) -> None:
    """Set -B SOCKETS[:CORES[:THREADS]]. Each is a count, a range of which the lower end counts, or *. Raises
    UserError.
    """
    pieces = value.split(":")
    if len(pieces) > len(_PARTS):
        raise UserError(f"--extra-node-info={value} has more than three parts", "write SOCKETS:CORES:THREADS")
    for part, piece in zip(_PARTS, [*pieces, "", ""], strict=False):
        _least(resources)[part] = _count(piece, f"--extra-node-info={value}", ranged=True)
    if threads := _least(resources)["threads"]:
        resources["threads_per_core"] = threads


def set_sockets(resources: dict[str, Any], value: str) -> None:
    """Set the minimum number of sockets, --sockets-per-node. Raises UserError."""
    _least(resources)["sockets"] = _count(value, f"--sockets-per-node={value}")


def set_cores(resources: dict[str, Any], value: str) -> None:
    """Set the minimum number of cores per socket, --cores-per-socket. Raises UserError."""
    _least(resources)["cores"] = _count(value, f"--cores-per-socket={value}")


def _least(resources: dict[str, Any]) -> dict[str, Any]:
    least: dict[str, Any] = resources.setdefault("node_minimum", {})
    return least


def _count(text: str, where: str, *, ranged: bool = False) -> int | None:
    """Return the parsed count; None means that any number is accepted."""
    if not text or text.startswith("*"):
        return None
    match = _LEAST.fullmatch(text)
    if match is None or (match[3] and not ranged):
        raise UserError(f"{where}: {text!r} is no count", "write a number")
    return int(match[1]) * _FACTORS[match[2].lower()] or None
