"""The figures of `sdiag` that show how busy slurmctld is. Those of 20.11 to 26.05 have the same names."""

from __future__ import annotations

import re

import msgspec

_FIGURE = re.compile(r"^\s*([A-Z][A-Za-z ()]*):\s+(\d+)\s*$", re.MULTILINE)
_MAIN_CYCLES = re.compile(r"^Main schedule statistics.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_MICROSECONDS = 1_000_000


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How busy slurmctld is."""

    threads: int = 0
    """Number of requests that slurmctld handles at present. It refuses more than 256."""
    agent_queue: int = 0
    """Number of messages that wait to be sent to nodes."""
    mean_cycle_s: float = 0.0
    """Mean duration of a pass of the scheduler. During a pass, requests wait for its locks."""


def read_load(text: str) -> Load:
    """Return the figures that sdiag prints. A figure that is missing is 0."""
    figures = {name: int(value) for name, value in reversed(_FIGURE.findall(text))}
    cycles = _MAIN_CYCLES.search(text)
    of_cycles = dict(_FIGURE.findall(cycles[0])) if cycles else {}
    return Load(
        threads=figures.get("Server thread count", 0),
        agent_queue=figures.get("Agent queue size", 0),
        mean_cycle_s=int(of_cycles.get("Mean cycle", 0)) / _MICROSECONDS,
    )
