"""Sets of array task numbers as inclusive (first, last, step) ranges, ascending and disjoint: 100,000 tasks in one tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """The ranges that hold exactly these numbers, without steps."""
    found: list[Range] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number, 1)
        else:
            found.append((number, number, 1))
    return tuple(found)


def with_task(ranges: Ranges, task: int) -> Ranges:
    """The ranges and this number, which is not in them; it lengthens the ranges beside it where their steps allow."""
    found: list[Range] = []
    for after in sorted((*ranges, (task, task, 1))):
        if found and (gap := _gap(found[-1], after)):
            found[-1] = (found[-1][0], after[1], gap)
        else:
            found.append(after)
    return tuple(found)


def _gap(before: Range, after: Range) -> int:
    """The step with which both are one range; 0 if they are not."""
    gap = after[0] - before[1]
    steps = {step for first, last, step in (before, after) if first < last} or {1}
    return gap if steps == {gap} else 0


def split_ranges(ranges: Ranges, wanted: Ranges) -> tuple[Ranges, Ranges]:
    """(those numbers of `ranges` that are in `wanted`, the others)."""
    taken: list[Range] = []
    rest = list(ranges)
    for low, high in _intervals(wanted):
        kept: list[Range] = []
        for first, last, step in rest:
            begin = first + max(0, -(-(low - first) // step)) * step
            end = min(last, high - (high - first) % step)
            if begin > end:
                kept.append((first, last, step))
                continue
            taken.append(_range(begin, end, step))
            if first < begin:
                kept.append(_range(first, begin - step, step))
            if end < last:
                kept.append(_range(end + step, last, step))
        rest = kept
    return tuple(sorted(taken)), tuple(rest)


def _range(first: int, last: int, step: int) -> Range:
    return first, last, step if first < last else 1


def _intervals(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The ranges as gapless (first, last)."""
    for first, last, step in ranges:
        if step == 1:
            yield first, last
        else:
            yield from ((number, number) for number in range(first, last + 1, step))
