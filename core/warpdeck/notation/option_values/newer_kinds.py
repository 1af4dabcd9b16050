"""Kinds of option values that came after Slurm 22.05."""

from __future__ import annotations

from warpdeck.notation.values.lists import words_of
from warpdeck.notation.values.signals import signal_number
from warpdeck.notation.values.slurm_error import PLAIN, SlurmError, invalid

from .value_kinds import OptionText, ValueKind, attribute

EXPEDITE, AT_LIMIT = "expedite", "limit"
"""Values of --requeue: the job goes first after its node failed; it returns to the queue at its time limit if it has
checkpointed. The second one is not Slurm's.
"""
_IGNORABLE = {signal_number(name): name for name in ("INT", "QUIT", "TERM", "HUP", "USR1", "USR2")}
"""The signals that --ignore-signals accepts."""


def _read_requeue(given: OptionText) -> str:
    words = given.word.lower()
    if words and not {*words.split(",")} <= {EXPEDITE, AT_LIMIT}:
        raise invalid(
            "requeue", "write --requeue, --requeue=expedite, --requeue=limit or --requeue=expedite,limit"
        )
    return words or "requeue"


def _read_pty(given: OptionText) -> str:
    if given.text is not None:
        words = f"--pty={given.text} is not supported, because srun uses its own terminal"
        raise SlurmError(words, "write --pty")
    return "set"


def _read_ignored(given: OptionText) -> tuple[int, ...]:
    found = []
    for word in words_of(given.word):
        number = signal_number(word)
        if not number:
            raise SlurmError(f"Invalid signal name or number: {word}", "write such as INT,TERM")
        if number not in _IGNORABLE:
            words = f"Signal {word} cannot be ignored"
            raise SlurmError(words, f"write some of {','.join(_IGNORABLE.values())}", exit_code=PLAIN)
        found.append(number)
    return tuple(found)


REQUEUE = attribute("requeue", _read_requeue)
PTY = ValueKind(_read_pty)
IGNORE_SIGNALS = ValueKind(_read_ignored)
