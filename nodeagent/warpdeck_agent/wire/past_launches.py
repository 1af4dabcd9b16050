"""The records of launches that an agent keeps for a controller with an older database.

With each launch, the controller sends a proof and a sealed record of its job, and the agent keeps both. A controller with
an older database thus recognizes launches that it does not know, and can adopt their jobs. The agent also remembers the
launches that it was told to forget, because an older database may contain their jobs as waiting or running.

The list of forgotten launches is one text, because a list of objects would be three times as large: "12.0.PROOF 13.1.PROOF".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Iterator, List, Literal, Tuple

from .launches import JobReport, Key

MAX_TEXT_CHARS = 60_000
"""Maximum length of the list of forgotten launches in Welcome: some 2,500 launches, the newest first."""
MAX_ASKED = 100
"""Maximum number of launches of one question."""


@dataclass(frozen=True)
class AskLaunches:
    """Ask for the reports and records of these launches ([job_id, restarts]), running or forgotten."""

    ask: int
    launches: List[List[int]]
    t: Literal["ask_launches"] = "ask_launches"


@dataclass(frozen=True)
class KnownLaunch:
    """The last report of a launch, and the record that came with it."""

    report: JobReport
    record: str = ""
    last_step: int = -1
    """Number of the last step that the agent knows."""


@dataclass(frozen=True)
class KnownLaunches:
    """The answer to AskLaunches. Launches that the agent does not know are missing."""

    ask: int
    found: List[KnownLaunch] = field(default_factory=list)
    t: Literal["known_launches"] = "known_launches"


def format_past(launches: Iterable[Tuple[Key, str]]) -> str:
    """Return the list of launches with their proofs as text, which is cut after MAX_TEXT_CHARS."""
    parts: List[str] = []
    length = 0
    for (job_id, restarts), proof in launches:
        part = f"{job_id}.{restarts}.{proof}"
        length += len(part) + 1
        if length > MAX_TEXT_CHARS:
            break
        parts.append(part)
    return " ".join(parts)


def parse_past(text: str) -> Iterator[Tuple[Key, str]]:
    """Yield the launches of the text with their proofs. Parts that are not understood are left out."""
    for part in text.split():
        job_id, _, rest = part.partition(".")
        restarts, _, proof = rest.partition(".")
        if job_id.isdecimal() and restarts.isdecimal() and len(part) < 128:
            yield (int(job_id), int(restarts)), proof
