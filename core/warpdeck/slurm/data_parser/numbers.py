"""Numbers of newer layouts: objects that say whether a number is set or infinite. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals
from typing import Any

from warpdeck.slurm.fields.field import Field, Row, constant


def number_object(value: float | None) -> Row:
    """Return a number as an object. None is a number that is not set."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def at_number(at_unix: float | None) -> Row:
    """Return a time as an object. A time that is not known is 0."""
    return number_object(int(at_unix or 0))


def minutes_number(seconds: float | None) -> Row:
    """Return a limit in minutes as an object. None is no limit."""
    return INFINITE if seconds is None else number_object(int(seconds) // 60)


def is_number(value: Any) -> bool:
    """Return whether the value is a number in the form of an object."""
    return isinstance(value, dict) and value.keys() == UNSET.keys()


def exit_object(code: str) -> Row:
    """Return an exit code such as 0:9 as an object."""
    number, signal = map(int, code.split(":"))
    name = Signals(signal).name.removeprefix("SIG") if signal in {*Signals} else ""
    return {
        "status": ["SIGNALED" if signal else "ERROR" if number else "SUCCESS"],
        "return_code": number_object(None if signal else number),
        "signal": {"id": number_object(signal or None), "name": name},
    }


UNSET = number_object(None)
INFINITE: Row = {"set": False, "infinite": True, "number": 0}
NUMBER_FIELDS: dict[str, Field] = {
    "infinite": constant(INFINITE),
    "unset": constant(UNSET),
    "zero": constant(number_object(0)),
}
"""Fields with the same number in every row."""
NUMBER_FORMS: dict[str, Callable[[Any], Any]] = {
    "at": at_number,
    "exit": exit_object,
    "minutes": minutes_number,
    "names": lambda text: text.split(",") if text else [],
    "number": number_object,
}
"""Forms in addition to those of `text_forms`, which show a value as newer layouts do."""
