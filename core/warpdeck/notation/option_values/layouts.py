"""Options about the number and hardware of nodes: --nodes, --extra-node-info, --core-spec, --switches."""

from __future__ import annotations

import re

from warpdeck.notation.values.numbers import UNLIMITED, count, int32, is_blank, seconds, strtol, time_text
from warpdeck.notation.values.refusal import Refusal

from .option_fields import Fields, OptionText, SlurmValue


def _read_nodes(fields: Fields, value: OptionText) -> None:
    """Read COUNT or MIN-MAX. A missing minimum is 1."""
    word = value.word
    low, dash, high = word.partition("-")
    least = _node_count(low)
    if dash:
        least, most = (1 if least < 0 else least), _node_count(high)
    else:
        most = least
        if least < 0:
            raise _no_node_count(word)
    fields.min_nodes, fields.max_nodes, fields.nodes_set = least, most, True
    if most and most < least:
        raise Refusal(f"Maximum node count {most} is less than minimum node count {least}", "write MIN-MAX")


def _node_count(text: str) -> int:
    number, rest = strtol(text)
    if rest == text:
        if is_blank(text):
            return -1
        raise _no_node_count(text)
    for unit, factor in (("k", 1024), ("m", 1024**2)):
        if rest[:1].lower() == unit:
            number, rest = number * factor, rest[1:]
    if not is_blank(rest):
        raise _no_node_count(text)
    return int32(number)


def _no_node_count(text: str) -> Refusal:
    return Refusal(f'"{text}" is not a valid node count', "write COUNT or MIN-MAX")


def _show_nodes(fields: Fields, option: str) -> str:
    if fields.min_nodes != fields.max_nodes:
        return f"{fields.min_nodes}-{fields.max_nodes}"
    return str(fields.min_nodes)


def _read_switches(fields: Fields, value: OptionText) -> None:
    number, at, wait = value.word.partition("@")
    if at:
        fields.switches_wait_s = seconds(wait)
    fields.switches = count("switches", number)


def _read_switch_req(fields: Fields, value: OptionText) -> None:
    fields.switches = count("switches", value.text)


def _read_switch_wait(fields: Fields, value: OptionText) -> None:
    fields.switches_wait_s = seconds(value.word)


def _show_switches(fields: Fields, option: str) -> str:
    if fields.switches_wait_s in (None, UNLIMITED):
        return str(fields.switches)
    return f"{fields.switches}@{time_text(fields.switches_wait_s or 0)}"


_LAYOUT = ("sockets", "cores", "threads")


def _read_extra(fields: Fields, value: OptionText) -> None:
    """Read SOCKETS[:CORES[:THREADS]]; each is a count, a range or *."""
    pieces = [*value.word.split(":"), "", ""][:3]
    for field, ordinal, piece in zip(_LAYOUT, ("first", "second", "third"), pieces, strict=True):
        setattr(fields, field, _layout_count(piece, ordinal))
    fields.extra_set = True


_LAYOUT_RANGE = re.compile(r"\s*([+-]?\d+)([kKmM]?)(?:-([+-]?\d*)([kKmM]?)(?:-.*)?)?")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}


def _layout_count(text: str, ordinal: str) -> int | None:
    if not text or text.startswith("*"):
        return None
    match = _LAYOUT_RANGE.fullmatch(text)
    wrong = Refusal(
        f'Invalid numeric value "{text}" for {ordinal} arg of -B.', "write SOCKETS:CORES:THREADS", exit_code=1
    )
    if match is None:
        raise wrong
    least = strtol(match[1])[0] * _FACTORS[match[2].lower()]
    most = strtol(match[3])[0] * _FACTORS[match[4].lower()] if match[3] is not None else 1
    if least < 0 or most <= 0:
        raise wrong
    for number in (least, most):
        if number > 2**31 - 1:
            raise Refusal(
                f"Numeric argument ({number}) to big for {ordinal} arg of -B.", "write less", exit_code=1
            )
    return least


def _show_extra(fields: Fields, option: str) -> str:
    first = "" if fields.sockets is None else str(fields.sockets)
    rest = "".join(f":{value}" for value in (fields.cores, fields.threads) if value is not None)
    return first + rest or "unset"


_THREADS = 0x8000
"""Slurm stores cores and threads in one number, and this bit marks threads."""


def _read_spec(fields: Fields, value: OptionText) -> None:
    """Read --core-spec or --thread-spec."""
    of_threads = value.option == "thread-spec"
    number = count(value.option, value.text, positive=of_threads)
    fields.core_spec = number | _THREADS if of_threads else number


def _show_spec(fields: Fields, option: str) -> str:
    number = fields.core_spec
    if number in (None, 0xFFFE) or bool(number & _THREADS) != (option == "thread-spec"):
        return "unset"
    return str(number & ~_THREADS)


EXTRA_NODE_INFO = SlurmValue(_read_extra, _show_extra, (*_LAYOUT, "extra_set"))
NODES = SlurmValue(_read_nodes, _show_nodes, ("min_nodes", "max_nodes", "nodes_set"))
SPEC = SlurmValue(_read_spec, _show_spec, ("core_spec",))
SWITCHES = SlurmValue(_read_switches, _show_switches, ("switches", "switches_wait_s"))
SWITCH_REQ = SlurmValue(_read_switch_req)
SWITCH_WAIT = SlurmValue(_read_switch_wait)
