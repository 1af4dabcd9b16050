"""Parses #BSUB lines (LSF) like sbatch 22.05: it accepts a few of LSF's options and rejects all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpdeck.notation.options.getopt import ParsedWord
from warpdeck.notation.options.option_table import COMMAND, NONE, REQUIRED, Option, table_of
from warpdeck.notation.values.slurm_error import SlurmError

from .option_mapping import MappedOption, ValueOf

MARK = "#BSUB"
_SHORT_ONLY = "n"
_SAME = {
    "cwd": "chdir",
    "error_file": "error",
    "job_name": "job-name",
    "output_file": "output",
    "queue_name": "partition",
    "time": "time",
}
"""Options that mean the same as an option of sbatch."""
OPTIONS = table_of(
    "sbatch",
    (
        Option(name, letter, takes, "", COMMAND, frozenset(marks))
        for name, letter, takes, *marks in (
            ("cwd", "c", REQUIRED),
            ("error_file", "e", REQUIRED),
            ("job_name", "J", REQUIRED),
            ("hostname", "m", REQUIRED),
            ("memory_limit", "M", REQUIRED),
            (_SHORT_ONLY, _SHORT_ONLY, REQUIRED, "short"),
            ("output_file", "o", REQUIRED),
            ("queue_name", "q", REQUIRED),
            ("time", "W", REQUIRED),
            ("exclusive", "x", NONE),
        )
    ),
)


def prepared(words: Sequence[str]) -> list[str]:
    """Replace -cwd by -c where an option is expected. This is every other word, because values are assumed to
    be in between.
    """
    return ["-c" if word == "-cwd" and at % 2 == 0 else word for at, word in enumerate(words)]


def mapped_options(word: ParsedWord, value_of: ValueOf) -> Iterator[MappedOption]:
    """Iterate over the sbatch options that the word stands for. Raises SlurmError."""
    text = word.text or ""
    if word.option in _SAME:
        yield MappedOption(_SAME[word.option], text)
    elif word.option == "exclusive":
        yield MappedOption("exclusive", None)
    elif word.option == "hostname":
        yield MappedOption("nodelist", text.replace(" ", ","))
    elif word.option == "memory_limit":
        yield MappedOption("mem-per-cpu", _memory(text))
    else:
        yield MappedOption("ntasks", _most_tasks(text))


def _memory(text: str) -> str:
    """Return the amount with a unit, because LSF counts in kilobytes."""
    return f"{text}K" if text[-1:].isdigit() else text


def _most_tasks(text: str) -> str:
    """Return the maximum of a value LEAST,MOST, or the whole value if there is no comma."""
    _, comma, most = text.partition(",")
    if comma and not most:
        raise SlurmError(f"#BSUB -n format not correct given: '{text}'", "write -n COUNT or -n LEAST,MOST")
    return most if comma else text
