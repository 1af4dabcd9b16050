"""Parser for the job and step IDs of -j in sacct and sstat.

The forms are 12, 12.0, 12.batch, 12_3, 12+1, and our own 12_[3-5]. As with C's number parsing, text after a
number is ignored: 12x is 12. Source: measured behavior of slurm_parse_step_str in Slurm 22.05.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from warpdeck.notation.values.job_ids import is_job_id
from warpdeck.notation.values.lists import words_of
from warpdeck.slurm.console.command_options import WordsError

SPECIAL = frozenset({"batch", "extern", "interactive"})
_JOB = re.compile(r"(\d+)[^_+]*(?:([_+])(\d*))?")


class NamedStep(NamedTuple):
    """ID of a job, array task or heterogeneous component, and a step of it ("" if no step is named)."""

    job: str
    step: str = ""

    @property
    def number(self) -> str:
        """The job number alone."""
        return re.split("[_+]", self.job, maxsplit=1)[0]


def parse_step_ids(command: str, text: str) -> list[NamedStep]:
    """Parse a list of job and step IDs. Raises WordsError for the first invalid ID."""
    return [_named(command, word) for word in words_of(text)]


def _named(command: str, word: str) -> NamedStep:
    if not word[0].isdecimal():
        raise WordsError(f"{command}: fatal: Bad job/step specified: {word}")
    job, dot, step = word.partition(".")
    if dot and step not in SPECIAL:
        digits = re.match(r"\d+", step)
        if digits is None:
            raise WordsError(f"{command}: fatal: Bad step specified: {job}")
        step = str(int(digits[0]))
    if is_job_id(job):
        return NamedStep(job, step)
    found = _JOB.match(job)
    assert found is not None, "it begins with a number"
    number, sign, rest = found.groups()
    if sign and not rest:
        what = "job array element" if sign == "_" else "hetjob offset"
        raise WordsError(f"{command}: fatal: Bad {what} specified: {job[: job.index(sign)]}")
    return NamedStep(f"{int(number)}{sign or ''}{rest or ''}", step)
