"""Kinds of option values: how Slurm's commands read a value, keep it while they check the options, and print it
among the "defined options" of `sbatch -vv`.

Each kind reads a text once, and everything else uses the value that it returns. Kinds of one option that need
several functions are in `special_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.values.durations import (
    NO_TIME,
    TIME_HINT,
    UNLIMITED,
    read_seconds,
    time_text,
)
from warpdeck.notation.values.memory_sizes import SIZE_HINT, megabytes, size_text
from warpdeck.notation.values.numbers import count, int32
from warpdeck.notation.values.slurm_error import invalid
from warpdeck.notation.values.time_points import moment_text, parse_moment

from .slurm_options import SlurmOptions

NO_VALUE = 2**32 - 2
"""Slurm's NO_VAL, which means that an option was not given."""


class OptionText(NamedTuple):
    """An option and its value as text, which is None if the option was given without a value."""

    option: str
    text: str | None
    source: OptionSource

    @property
    def word(self) -> str:
        """The value; "" if there is none."""
        return self.text or ""


def _store(options: SlurmOptions, option: str, value: Any) -> None:
    options.values[option] = value


def _show(options: SlurmOptions, option: str) -> str:
    value = options.values.get(option)
    return "(null)" if value is None else str(value)


class ValueKind(NamedTuple):
    """How Slurm's commands read, keep and print the value of an option."""

    read: Callable[[OptionText], Any]
    """Function that returns the value; raises SlurmError."""
    store: Callable[[SlurmOptions, str, Any], None] = _store
    """Function that keeps the value of an option."""
    show: Callable[[SlurmOptions, str], str] = _show
    """Function that returns the kept value of an option as Slurm's commands print it."""
    fields: tuple[str, ...] = ()
    """Attributes of SlurmOptions that hold the value, if it is not in `values`."""


def text_kind(read: Callable[[str], Any], *, alone: str = "", show: Callable[[Any], str] = str) -> ValueKind:
    """Return a kind that reads the text alone. `alone` is the text of an option that was given without a value."""

    def read_text(given: OptionText) -> Any:
        return read(alone if given.text is None else given.text)

    return ValueKind(read_text, show=shown_as(show))


def shown_as(show: Callable[[Any], str]) -> Callable[[SlurmOptions, str], str]:
    """Return a function that prints the kept value of an option."""
    return lambda options, option: (
        "(null)" if options.values[option] is None else show(options.values[option])
    )


def attribute(field: str, read: Callable[[OptionText], Any], *, flag: str = "") -> ValueKind:
    """Return a kind that stores its value in an attribute of SlurmOptions, and sets the attribute `flag` to True."""

    def store(options: SlurmOptions, option: str, value: Any) -> None:
        setattr(options, field, value)
        if flag:
            setattr(options, flag, True)

    return ValueKind(read, store, show_attribute(field), (field, flag) if flag else (field,))


def show_attribute(field: str) -> Callable[[SlurmOptions, str], str]:
    """Return a function that prints an attribute. A number that was reset is shown as Slurm's NO_VAL."""

    def show(options: SlurmOptions, option: str) -> str:
        value = getattr(options, field)
        return str(int32(NO_VALUE) if value is None else value)

    return show


def number(field: str, *, flag: str = "") -> ValueKind:
    """Return the kind of an option that sets the attribute `field` of the options to a positive count."""
    return attribute(field, lambda given: count(given.option, given.text), flag=flag)


def constant(field: str, value: str) -> ValueKind:
    """Return a kind that sets an attribute to this word, whatever its text is."""
    return attribute(field, lambda given: value)


def count_kind(*, positive: bool = True, called: str = "", alone: str | None = None) -> ValueKind:
    """Return a kind for a count. `called` is the option's name in errors, `alone` the text of an option that was
    given without a value.
    """

    def read(given: OptionText) -> int:
        text = alone if given.text is None else given.text
        return count(given.option, text, positive=positive, called=called)

    return ValueKind(read)


def choice(words: Mapping[str, str | None], hint: str, *, field: str = "") -> ValueKind:
    """Return a kind that accepts these words in any case. Their values are shown; None is "(null)"."""

    def read(given: OptionText) -> str | None:
        word = given.word.lower()
        if word not in words:
            raise invalid(given.option, hint)
        return words[word]

    return attribute(field, read) if field else ValueKind(read)


TEXT = ValueKind(lambda given: "set" if given.text is None else given.text)
"""The text itself; "set" for an option without a value."""
COUNT = count_kind()
FILE = text_kind(lambda word: "/dev/null" if word.lower() == "none" else word)


def _read_size(given: OptionText) -> int:
    size_mb = megabytes(given.word)
    if size_mb is None:
        raise invalid(given.option, SIZE_HINT)
    return size_mb


def _read_time(given: OptionText) -> int:
    found_s = read_seconds(given.word)
    if int32(found_s) == NO_TIME:
        raise invalid(given.option, TIME_HINT)
    return found_s


def _show_limit(found_s: int) -> str:
    """Print whole minutes, rounded up. int() truncates towards zero, like division in C."""
    minutes = UNLIMITED if int32(found_s) == UNLIMITED else int(int32(found_s + 59) / 60)
    return time_text(minutes % 2**32 * 60) if minutes not in (0, UNLIMITED) else "UNLIMITED"


def _read_moment(given: OptionText) -> float:
    try:
        return parse_moment(given.word, given.source.now)
    except UserError as error:
        raise invalid(given.option, error.hint) from None


SIZE = ValueKind(_read_size, show=shown_as(size_text))
"""A size in megabytes."""
DURATION = ValueKind(_read_time, show=shown_as(lambda found_s: time_text(found_s % 2**32)))
"""A duration in seconds."""
LIMIT = ValueKind(_read_time, show=shown_as(_show_limit))
"""A time limit in seconds."""
MOMENT = ValueKind(_read_moment, show=shown_as(moment_text))
