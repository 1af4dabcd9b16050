"""The jobs and steps that -j of sacct and sstat names."""

from __future__ import annotations

from warpdeck.notation.jobids import is_job_id
from warpdeck.notation.lists import words_of
from warpdeck.slurm.words import WordsError

STEPS = frozenset({"", "batch", "extern", "interactive"})


def named_steps(command: str, text: str) -> list[tuple[str, str]]:
    """(job, step) of each word, "" where none is named. Raises WordsError."""
    return [_named_step(command, word) for word in words_of(text)]


def _named_step(command: str, word: str) -> tuple[str, str]:
    number, _, step = word.partition(".")
    job, _, task = number.partition("_")
    what = "job/step specified: " + word
    if is_job_id(number):
        if step in STEPS or step.partition("+")[0].isdecimal():
            return number, step
        what = f"step specified: {number}"
    elif task and is_job_id(job):
        what = f"job array element specified: {job}"
    raise WordsError(f"{command}: fatal: Bad {what}")
