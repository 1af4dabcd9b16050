"""What -j of sacct and sstat names: 12, 12.0, 12.batch, 12_3, 12+1, and as ours 12_[3-5]. As in C what stands behind a number
is not looked at: 12x is 12.

Source: slurm_parse_step_str of 22.05, measured.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from warpdeck.notation.values.job_ids import is_job_id
from warpdeck.notation.values.lists import words_of
from warpdeck.slurm.console.arguments import WordsError

SPECIAL = frozenset({"batch", "extern", "interactive"})
_JOB = re.compile(r"(\d+)[^_+]*(?:([_+])(\d*))?")


class Named(NamedTuple):
    """A job, a task of an array or a component as an id, and the step of it; "" is none."""

    job: str
    step: str = ""

    @property
    def number(self) -> str:
        """The job's alone."""
        return re.split("[_+]", self.job, maxsplit=1)[0]


def named_steps(command: str, text: str) -> list[Named]:
    """Raises WordsError for the first word that means nothing."""
    return [_named(command, word) for word in words_of(text)]


def _named(command: str, word: str) -> Named:
    if not word[0].isdecimal():
        raise WordsError(f"{command}: fatal: Bad job/step specified: {word}")
    job, dot, step = word.partition(".")
    if dot and step not in SPECIAL:
        digits = re.match(r"\d+", step)
        if digits is None:
            raise WordsError(f"{command}: fatal: Bad step specified: {job}")
        step = str(int(digits[0]))
    if is_job_id(job):
        return Named(job, step)
    found = _JOB.match(job)
    assert found is not None, "it begins with a number"
    number, sign, rest = found.groups()
    if sign and not rest:
        what = "job array element" if sign == "_" else "hetjob offset"
        raise WordsError(f"{command}: fatal: Bad {what} specified: {job[: job.index(sign)]}")
    return Named(f"{int(number)}{sign or ''}{rest or ''}", step)
