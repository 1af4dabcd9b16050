"""TRES lists (trackable resources): "cpu=64,mem=1T,gres/gpu=8,license/matlab=2", and prices or weights.

Names are Slurm's: cpu, mem (counted in MiB), node, billing, gres/gpu, gres/gpu:TYPE, license/NAME. They are
compared without case, except the names of licenses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from warpdeck.base.errors import UserError

from .memory_sizes import parse_memory

_PLAIN = ("cpu", "mem", "node", "billing", "gres/gpu")
_TYPED_GPU = re.compile(r"gres/gpu:[a-z0-9_.\-]+")
_LICENSE = re.compile(r"license/[A-Za-z0-9_.\-@]+")
_COUNT = re.compile(r"\d{1,15}")
_PRICE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?)([KMGTkmgt]?)")
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_LARGEST = ((2**20, "T"), (2**10, "G"))


def parse_tres(text: str) -> dict[str, int]:
    """Return TRES -> count; {} for "". Raises UserError."""
    return {name: _count(name, value) for name, value in _items(text)}


def format_tres(tres: Mapping[str, int]) -> str:
    """Format counts in the form that `parse_tres` reads."""
    return ",".join(f"{name}={_written(name, count)}" for name, count in tres.items())


def parse_tres_weights(text: str) -> dict[str, float]:
    """Return TRES -> weight, each a plain number. Raises UserError."""
    return {name: _price(name, value, per_mib=False) for name, value in _items(text)}


def format_tres_weights(weights: Mapping[str, float]) -> str:
    """Format weights in the form that `parse_tres_weights` reads."""
    return ",".join(f"{name}={_number(weight)}" for name, weight in weights.items())


def parse_tres_prices(text: str) -> dict[str, float]:
    """Return TRES -> price per unit (per MiB of memory). "mem=0.25G" is a quarter for each GiB. Raises
    UserError.
    """
    return {name: _price(name, value, per_mib=True) for name, value in _items(text)}


def format_tres_prices(prices: Mapping[str, float]) -> str:
    """Format prices in the form that `parse_tres_prices` reads."""
    return ",".join(
        f"{name}={_number(price * 1024)}G" if name == "mem" else f"{name}={_number(price)}"
        for name, price in prices.items()
    )


def tres_name(text: str) -> str:
    """Return the name in canonical spelling. Raises UserError."""
    word = text.strip()
    lowered = word.lower()
    if lowered in _PLAIN or _TYPED_GPU.fullmatch(lowered):
        return lowered
    if lowered.startswith("license/") and _LICENSE.fullmatch("license/" + word[8:]):
        return "license/" + word[8:]
    raise UserError(
        f"{text!r} is not a TRES", "write cpu, mem, node, billing, gres/gpu[:TYPE] or license/NAME"
    )


def _items(text: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for item in text.split(",") if text.strip() else ():
        word, equals, value = item.partition("=")
        name = tres_name(word)
        if not equals:
            raise UserError(f"{item!r} has no count", "write TRES=COUNT, such as gres/gpu=8,cpu=64")
        if name in seen:
            raise UserError(f"{name} occurs twice in {text!r}", "keep one of them")
        seen.add(name)
        yield name, value.strip()


def _count(name: str, value: str) -> int:
    if name == "mem":
        return parse_memory(value) // 2**20
    if not _COUNT.fullmatch(value):
        raise UserError(f"{name}={value} is not a count", "write a whole number")
    return int(value)


def _price(name: str, value: str, *, per_mib: bool) -> float:
    match = _PRICE.fullmatch(value)
    if match is None or (match[2] and not (per_mib and name == "mem")):
        raise UserError(
            f"{name}={value} is not a weight", "write a number such as 0.25; memory may have a unit"
        )
    return float(match[1]) / (_MIB[match[2].upper()] if match[2] else 1.0)


def _written(name: str, count: int) -> str:
    if name == "mem":
        for size, unit in _LARGEST:
            if count and count % size == 0:
                return f"{count // size}{unit}"
        return f"{count}M"
    return str(count)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e12 else repr(value)
