"""The 256 colors of xterm's palette, and the one of them that is nearest to an RGB color.

Only the numbers from 16 are used: the cube of 216 colors and the ramp of 24 grays. The first 16 are the terminal's
own colors and differ everywhere. Rich rounds each channel of a color to the cube, so the dark surfaces of a theme
turn black or navy blue. Here the distance is measured as the eye sees it (OKLab, Ottosson 2020): a color with little
chroma becomes a gray of the ramp, and a color never becomes much more colorful than it was.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

Rgb = tuple[int, int, int]
FIRST, LAST = 16, 255
GRAYS_BEGIN = 232
GRAY_CHROMA = 0.035
"""Chroma in OKLab below which a color becomes a gray. That of the surfaces of most dark themes is 0.01 to 0.03."""
EXCESS_WEIGHT = 3.0
"""Weight of additional chroma. Without it dark blue would become navy, the only dark blue of the cube."""
_CUBE = (0, 95, 135, 175, 215, 255)


def rgb_of(number: int) -> Rgb:
    """Return the color with this number, 16 to 255."""
    if not FIRST <= number <= LAST:
        raise ValueError(f"{number} is not between {FIRST} and {LAST}")
    if number >= GRAYS_BEGIN:
        level = 8 + 10 * (number - GRAYS_BEGIN)
        return (level, level, level)
    at = number - FIRST
    return (_CUBE[at // 36], _CUBE[at // 6 % 6], _CUBE[at % 6])


def number_of(rgb: Rgb) -> int | None:
    """Return the number of exactly this color, or None if the palette does not have it."""
    return _numbers().get(rgb)


@lru_cache(maxsize=4096)
def nearest(rgb: Rgb) -> int:
    """Return the number of the nearest color."""
    exact = number_of(rgb)
    if exact is not None:
        return exact
    lightness, a, b = oklab(rgb)
    chroma = math.hypot(a, b)
    best, least = FIRST, math.inf
    for number, (other, other_a, other_b) in _places():
        other_chroma = math.hypot(other_a, other_b)
        if chroma < GRAY_CHROMA < other_chroma:
            continue
        excess = max(0.0, other_chroma - chroma)
        distance = (other - lightness) ** 2 + (other_a - a) ** 2 + (other_b - b) ** 2
        distance += EXCESS_WEIGHT * excess**2
        if distance < least:
            best, least = number, distance
    return best


def oklab(rgb: Rgb) -> tuple[float, float, float]:
    """Return lightness and the two axes of color in OKLab."""
    red, green, blue = (_linear(channel / 255) for channel in rgb)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


@cache
def _numbers() -> dict[Rgb, int]:
    return {rgb_of(number): number for number in range(FIRST, LAST + 1)}


@cache
def _places() -> list[tuple[int, tuple[float, float, float]]]:
    return [(number, oklab(rgb_of(number))) for number in range(FIRST, LAST + 1)]
