"""Option values of srun and salloc that differ from sbatch's, and options that sbatch does not have.

All other options are handled as in sbatch (see `values`).
"""

from __future__ import annotations

import signal

from warpdeck.notation.values.numbers import count, int32
from warpdeck.notation.values.refusal import Refusal, invalid

from .hosts import hosts_of
from .notices import read_signal, show_signal, signal_name, signal_number
from .option_fields import Fields, OptionText, SlurmValue

MAX_HET_GROUPS = 128
"""Maximum number of components of a heterogeneous job in Slurm."""
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")


def number(*, positive: bool, called: str = "", alone: str = "") -> SlurmValue:
    """Return the value of an option that is a number. `called` is the option's name in errors, `alone` its value
    if none is given.
    """

    def read(fields: Fields, value: OptionText) -> None:
        word = alone if value.text is None and alone else value.text
        found = count(value.option, word, positive=positive, called=called)
        fields.texts[value.option] = str(int32(found))

    return SlurmValue(read)


def _read_signal(fields: Fields, value: OptionText) -> None:
    """Read --signal. There is no batch shell that could be signaled alone."""
    read_signal(fields, value)
    if fields.warn_batch:
        raise invalid("signal", "write SIGNAL[@SECONDS]; B: is sbatch's")


def _read_accel_bind(fields: Fields, value: OptionText) -> None:
    found = "".join(letter for letter in "vgn" if letter in value.word)
    if not found:
        raise invalid("accel-bind", "write g, n or both; v says what is bound")
    fields.texts["accel-bind"] = found


def _read_send_libs(fields: Fields, value: OptionText) -> None:
    word = (value.text or "yes").lower()
    if word not in ("yes", "y", "no", "n"):
        raise invalid("send-libs", "write yes or no")
    fields.texts["send-libs"] = "set" if word.startswith("y") else "(null)"


def _read_slurmd_debug(fields: Fields, value: OptionText) -> None:
    """Read --slurmd-debug. A value other than the lower levels counts as verbose."""
    word = value.word
    level = int(word) if word.isdecimal() and len(word) == 1 else None
    name = _LEVELS[level] if level is not None and level < len(_LEVELS) else word.lower()
    fields.texts["slurmd-debug"] = name if name in ("quiet", "fatal", "error", "info") else "verbose"


def _read_compress(fields: Fields, value: OptionText) -> None:
    fields.texts["compress"] = "lz4" if (value.text or "lz4").lower() == "lz4" else "none"


def _read_het_group(fields: Fields, value: OptionText) -> None:
    """Check --het-group. The option is not shown among the options, so nothing is stored."""
    word = value.word
    try:
        names = hosts_of(f"[{word}]")
    except Refusal as error:
        more = tuple(line for line in error.lines if "memory allocation" not in line)
        raise _bad_group(word, *more) from None
    if not names or any(int(name) >= MAX_HET_GROUPS for name in names):
        raise _bad_group(word)


def _bad_group(word: str, *more: str) -> Refusal:
    hint = f"write numbers below {MAX_HET_GROUPS}"
    return Refusal(f"Invalid --het-group value: {word}", hint, more=more, exit_code=1)


_MPI = frozenset({"cray_shasta", "list", "none", "openmpi", "pmi", "pmi1", "pmi2", "pmix"})


def _read_mpi(fields: Fields, value: OptionText) -> None:
    word = value.word
    if word not in _MPI and not word.startswith("pmix_"):
        words = f"Invalid MPI type '{word}', --mpi=list for acceptable types"
        raise Refusal(words, "write pmi2 or none", exit_code=1)
    fields.texts["mpi"] = word


def _read_x11(fields: Fields, value: OptionText) -> None:
    word = "all" if value.text is None else value.text
    fields.texts["x11"] = word if word in ("all", "batch", "first", "last") else "unset"


def _read_kill_command(fields: Fields, value: OptionText) -> None:
    number = int(signal.SIGTERM) if value.text is None else signal_number(value.text)
    if not number:
        raise invalid("kill-command", "write a signal, such as TERM")
    fields.texts["kill-command"] = signal_name(number)


ACCEL_BIND = SlurmValue(_read_accel_bind)
COMPRESS = SlurmValue(_read_compress)
HET_GROUP = SlurmValue(_read_het_group)
KILL_COMMAND = SlurmValue(_read_kill_command)
MPI = SlurmValue(_read_mpi)
SEND_LIBS = SlurmValue(_read_send_libs)
SIGNAL = SlurmValue(_read_signal, show_signal)
SLURMD_DEBUG = SlurmValue(_read_slurmd_debug)
X11 = SlurmValue(_read_x11)
