"""Reads which jobs scontrol and scancel have refused, and the codes of the refusals. All functions are pure.

scontrol prints a line for each refused job, "REASON for job 12", and one for each group of tasks of an array,
"12_3-5: REASON". Depending on the version, it also prints "12_0-2: No error" for the other tasks. scancel with
--verbose prints "Terminating job 12" for each job that it tries to cancel.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from warpdeck.protocol.refusals import WORDS

_OF_JOB = re.compile(r"(?:scontrol: error: )?(?P<words>.+) for job (?P<name>[0-9_+,\[\]-]+)")
_OF_TASKS = re.compile(r"(?P<name>\d+_[\d,\[\]-]+): (?P<words>.+)")
_CANCEL_REFUSED = re.compile(
    r"scancel: error: Kill job error on job (?:step )?id (?P<name>[^:\s]+): (?P<words>.+)"
)
_CANCEL_SENT = re.compile(
    r"scancel: (?:Terminating|Signal \d+ to) (?:full |batch )?(?:job|step) (?P<name>\S+)"
)
NO_ERROR = "No error"
NO_MATCH = "No active jobs match ALL job filters"
"""scancel prints this if it has selected none of the jobs by their state."""
UNEXPECTED = "Unexpected message received"
"""scontrol prints this if slurmctld does not answer, and also if a job to suspend or to resume does not exist."""
UNSURE = (UNEXPECTED, "Socket timed out", "Zero Bytes were transmitted")
"""Texts of errors that may come after the request was sent, so slurmctld may have carried it out."""
CODES = {words: code for code, words in WORDS.items()} | {
    "Access/permission denied": "denied",
    "Requested node configuration is not available": "BadConstraints",
    "Requested time limit is invalid (missing or exceeds some limit)": "limit",
    "Job can not be altered now, try again later": "ending",
    "Requested operation is presently disabled": "no_requeue",
    "Operation not permitted on individual component of heterogeneous job": "component",
    "Invalid generic resource (gres) specification": "BadConstraints",
}
"""Slurm's words -> our code. The words of several codes have the code that an order means by them."""


class Refusal(NamedTuple):
    """An id as Slurm printed it, and Slurm's words."""

    name: str
    words: str

    @property
    def code(self) -> str:
        return code_of(self.words)

    @property
    def is_unsure(self) -> bool:
        """Whether slurmctld may have carried out the order all the same."""
        return any(text in self.words for text in UNSURE)


def code_of(words: str) -> str:
    """Return the code of a refusal, or "" for an error that has none."""
    return CODES.get(words, "")


def read_scontrol(text: str) -> list[Refusal]:
    """Return the lines about single jobs, those with `NO_ERROR` included."""
    lines = (_OF_TASKS.fullmatch(line) or _OF_JOB.fullmatch(line) for line in text.splitlines())
    return [Refusal(match["name"], match["words"]) for match in lines if match is not None]


def read_scancel(text: str) -> tuple[list[Refusal], list[str]]:
    """Return the refusals, and the ids of the jobs or tasks that scancel has tried to cancel or signal."""
    refused, sent = [], []
    for line in text.splitlines():
        if match := _CANCEL_REFUSED.fullmatch(line):
            refused.append(Refusal(match["name"], match["words"]))
        elif match := _CANCEL_SENT.fullmatch(line):
            sent.append(match["name"])
    return refused, sent
