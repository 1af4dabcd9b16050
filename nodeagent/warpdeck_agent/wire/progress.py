"""Messages about launches that make no progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Literal


@dataclass(frozen=True)
class Stall:
    """A launch that is suspected to hang: it has been quiet for `quiet_s` seconds (see `progress.rhythm`)."""

    job_id: int
    restarts: int
    quiet_s: float


@dataclass(frozen=True)
class Frame:
    """A function on the stack of a Python program. `is_library` is true for code of Python and of packages."""

    name: str
    file: str
    line: int
    is_library: bool = False


@dataclass(frozen=True)
class RankEvidence:
    """Activity of one rank of a job, read from the main thread of its first Python process on this node.

    The counters are totals since its start, so that two looks show what it did in between.
    """

    label: str
    """The rank, "" for a process without one."""
    pid: int
    frames: List[Frame] = field(default_factory=list)
    """The stack of its main thread, innermost function first; empty if it could not be taken."""
    state: str = ""
    """The state of the main thread in words of the kernel, such as "S in futex_wait_queue"."""
    cpu_s: float = 0.0
    io_bytes: int = 0
    switches: int = 0
    """How often the main thread has waited."""
    problem: str = ""
    """Why there is no stack."""


@dataclass(frozen=True)
class AskEvidence:
    """Ask what the ranks of a launch are doing now. The answer is Evidence."""

    ask: int
    job_id: int
    restarts: int
    t: Literal["ask_evidence"] = "ask_evidence"


@dataclass(frozen=True)
class Evidence:
    """The answer to AskEvidence. It has no ranks if the launch does not run here."""

    ask: int
    ranks: List[RankEvidence] = field(default_factory=list)
    t: Literal["evidence"] = "evidence"
