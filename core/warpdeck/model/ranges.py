"""Sets of array task numbers as inclusive (first, last, step) ranges, ascending and disjoint: 100,000 tasks in one tuple."""

from __future__ import annotations

from collections.abc import Iterator

Range = tuple[int, int, int]
Ranges = tuple[Range, ...]


def format_ranges(ranges: Ranges) -> str:
    """`((0, 3, 1), (8, 8, 1), (10, 20, 5))` -> "0-3,8,10-20:5"."""
    parts = []
    for first, last, step in ranges:
        if first == last:
            parts.append(str(first))
        else:
            parts.append(f"{first}-{last}" + (f":{step}" if step != 1 else ""))
    return ",".join(parts)


def count_tasks(ranges: Ranges) -> int:
    """How many numbers the ranges hold."""
    return sum((last - first) // step + 1 for first, last, step in ranges)


def iter_tasks(ranges: Ranges) -> Iterator[int]:
    """The numbers, ascending within each range."""
    for first, last, step in ranges:
        yield from range(first, last + 1, step)


def has_task(ranges: Ranges, task: int) -> bool:
    """Whether the number is in one of the ranges."""
    return any(first <= task <= last and (task - first) % step == 0 for first, last, step in ranges)


def without_task(ranges: Ranges, task: int) -> Ranges:
    """The ranges less one number; the same ranges if it is not in them."""
    kept: list[Range] = []
    for first, last, step in ranges:
        if not has_task(((first, last, step),), task):
            kept.append((first, last, step))
            continue
        kept.extend(
            (low, high, step if low < high else 1)
            for low, high in ((first, task - step), (task + step, last))
            if low <= high
        )
    return tuple(kept)
