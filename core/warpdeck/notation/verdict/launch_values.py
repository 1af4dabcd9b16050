"""Option values of srun and salloc that differ from sbatch's, and options that sbatch does not have.

All other options are handled as in sbatch (see `values`).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from warpdeck.notation.values.numbers import count, int32
from warpdeck.notation.values.refusal import Refusal, invalid

from .checks import hosts_of
from .notices import set_signal, signal_name, signal_number
from .option_fields import Fields, OptionSource, Setter

MAX_HET_GROUPS = 128
"""Maximum number of components of a heterogeneous job in Slurm."""
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")


def _number(option: str, *, positive: bool, called: str = "", alone: str = "") -> Setter:
    """Return a setter for a number. `called` is the option's name in errors, `alone` its value if none is
    given.
    """

    def set_number(fields: Fields, text: str | None, place: OptionSource) -> None:
        word = alone if text is None and alone else text
        fields.texts[option] = str(int32(count(option, word, positive=positive, called=called)))

    return set_number


def _constant(option: str, value: str) -> Setter:
    return lambda fields, text, place: fields.texts.update({option: value})


def _set_signal(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Set --signal. There is no batch shell that could be signaled alone."""
    set_signal(fields, text, place)
    if fields.warn_batch:
        raise invalid("signal", "write SIGNAL[@SECONDS]; B: is sbatch's")


def _set_accel_bind(fields: Fields, text: str | None, place: OptionSource) -> None:
    found = "".join(letter for letter in "vgn" if letter in (text or ""))
    if not found:
        raise invalid("accel-bind", "write g, n or both; v says what is bound")
    fields.texts["accel-bind"] = found


def _set_send_libs(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = (text or "yes").lower()
    if word not in ("yes", "y", "no", "n"):
        raise invalid("send-libs", "write yes or no")
    fields.texts["send-libs"] = "set" if word.startswith("y") else "(null)"


def _set_slurmd_debug(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Set --slurmd-debug. A value other than the lower levels counts as verbose."""
    word = text or ""
    level = int(word) if word.isdecimal() and len(word) == 1 else None
    name = _LEVELS[level] if level is not None and level < len(_LEVELS) else word.lower()
    fields.texts["slurmd-debug"] = name if name in ("quiet", "fatal", "error", "info") else "verbose"


def _set_compress(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["compress"] = "lz4" if (text or "lz4").lower() == "lz4" else "none"


def _set_het_group(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Check --het-group. The option is not shown among the options, so nothing is stored."""
    word = text or ""
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


def _set_mpi(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = text or ""
    if word not in _MPI and not word.startswith("pmix_"):
        words = f"Invalid MPI type '{word}', --mpi=list for acceptable types"
        raise Refusal(words, "write pmi2 or none", exit_code=1)
    fields.texts["mpi"] = word


def _set_x11(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = "all" if text is None else text
    fields.texts["x11"] = word if word in ("all", "batch", "first", "last") else "unset"


def _set_kill_command(fields: Fields, text: str | None, place: OptionSource) -> None:
    number = int(signal.SIGTERM) if text is None else signal_number(text)
    if not number:
        raise invalid("kill-command", "write a signal, such as TERM")
    fields.texts["kill-command"] = signal_name(number)


_IMMEDIATE = _number("immediate", positive=False, called="immediate", alone="1")
SRUNS: Mapping[str, Setter] = {
    "accel-bind": _set_accel_bind,
    "compress": _set_compress,
    "het-group": _set_het_group,
    "immediate": _IMMEDIATE,
    "jobid": _number("jobid", positive=True),
    "kill-on-bad-exit": _number("kill-on-bad-exit", positive=False, alone="1"),
    "mpi": _set_mpi,
    "msg-timeout": _number("msg-timeout", positive=True),
    "overlap": _constant("overlap", "set"),
    "relative": _number("relative", positive=False),
    "resv-ports": _number("resv-ports", positive=False, called="--resv-port", alone="0"),
    "send-libs": _set_send_libs,
    "signal": _set_signal,
    "slurmd-debug": _set_slurmd_debug,
    "threads": _number("threads", positive=True),
    "wait": _number("wait", positive=False),
    "x11": _set_x11,
}
SALLOCS: Mapping[str, Setter] = {
    "bell": _constant("bell", "bell-always"),
    "immediate": _IMMEDIATE,
    "kill-command": _set_kill_command,
    "no-bell": _constant("no-bell", "bell-never"),
    "signal": _set_signal,
    "x11": _set_x11,
}
