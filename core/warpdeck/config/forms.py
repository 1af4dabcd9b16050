"""Text forms of values in config.toml: the parser and the writer of a field's text.

A table's field is annotated with its TextForm. The decoder applies `read`, the writer `write`. Fields without
a TextForm are plain TOML values, which msgspec converts. Keys that end in _s are numbers of seconds. All
other times use Slurm's formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.notation.values.hostlist import collapse, expand
from warpdeck.notation.values.memory_sizes import parse_memory
from warpdeck.notation.values.tres_counts import (
    format_tres,
    format_tres_prices,
    format_tres_weights,
    parse_tres,
    parse_tres_prices,
    parse_tres_weights,
)


class TextForm(NamedTuple):
    """A text form. `read` raises UserError; `write` returns text that `read` accepts."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    example: str


def _read_limit(text: str) -> int | None:
    try:
        return parse_limit(text)
    except UserError as error:
        raise UserError(error.message, "write 2:00:00 or 2-00:00:00") from None


def _read_time(text: str) -> int:
    seconds = _read_limit(text)
    if seconds is None:
        raise UserError(f"{text!r} is not a limited time", "write 2:00:00 or 2-00:00:00")
    return seconds


def _read_hosts(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(expand(text)))
    if not names:
        raise UserError(f"{text!r} contains no node name", "write names such as gpu[01-04,07],login, or ALL")
    return names


def _read_nodes(text: str) -> tuple[str, ...] | None:
    return None if text.strip().upper() == "ALL" else _read_hosts(text)


def _write_memory(size: int) -> str:
    mib = size // 2**20
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


def _write_nodes(names: tuple[str, ...] | None) -> str:
    return "ALL" if names is None else collapse(names)


def _tres(read: Callable[[str], Any], write: Callable[[Mapping[str, Any]], str]) -> TextForm:
    return TextForm(read=read, write=write, example="gres/gpu=8,cpu=64")


Limit = Annotated[int | None, TextForm(_read_limit, format_duration, "2-00:00:00")]
"""A time limit in seconds; None is UNLIMITED."""
Time = Annotated[int, TextForm(_read_time, format_duration, "2-00:00:00")]
"""A time in seconds."""
Memory = Annotated[int, TextForm(parse_memory, _write_memory, "4G")]
"""A size in bytes."""
Nodes = Annotated[tuple[str, ...] | None, TextForm(_read_nodes, _write_nodes, "gpu[01-08]")]
"""Node names; None is ALL."""
TresCounts = Annotated[dict[str, int], _tres(parse_tres, format_tres)]
TresWeights = Annotated[dict[str, float], _tres(parse_tres_weights, format_tres_weights)]
TresPrices = Annotated[dict[str, float], _tres(parse_tres_prices, format_tres_prices)]
