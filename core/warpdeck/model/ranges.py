"""Sets of array task numbers as inclusive (first, last, step) ranges, ascending and disjoint.

One tuple of ranges can stand for 100,000 tasks.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import itemgetter

Range = tuple[int, int, int]
Ranges = tuple[Range, ...]
MAX_RANGES = 10_000
"""Maximum number of ranges for the pending tasks of one array. All ranges are scanned for each task that
starts or is named individually.
"""
_LAST = itemgetter(1)


def format_ranges(ranges: Ranges) -> str:
    """Return the ranges as text: `((0, 3, 1), (8, 8, 1), (10, 20, 5))` becomes "0-3,8,10-20:5"."""
    parts = []
    for first, last, step in ranges:
        if first == last:
            parts.append(str(first))
        else:
            parts.append(f"{first}-{last}" + (f":{step}" if step != 1 else ""))
    return ",".join(parts)


def count_tasks(ranges: Ranges) -> int:
    """Return the number of task numbers in the ranges."""
    return sum((last - first) // step + 1 for first, last, step in ranges)


def iter_tasks(ranges: Ranges) -> Iterator[int]:
    """Iterate over the numbers. They are ascending within each range."""
    for first, last, step in ranges:
        yield from range(first, last + 1, step)


def has_task(ranges: Ranges, task: int) -> bool:
    """Return whether the number is in one of the ranges."""
    at = bisect_left(ranges, task, key=_LAST)
    return at < len(ranges) and ranges[at][0] <= task and (task - ranges[at][0]) % ranges[at][2] == 0


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """Return the ranges that contain exactly these numbers, all with a step of 1."""
    found: list[Range] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number, 1)
        else:
            found.append((number, number, 1))
    return tuple(found)


def without_steps(ranges: Ranges) -> Ranges:
    """Return the same numbers as the fewest possible ranges with a step of 1. The given ranges may be in any
    order.
    """
    if any(step != 1 for _, _, step in ranges):
        return ranges_of(iter_tasks(ranges))
    found: list[Range] = []
    for first, last, _ in sorted(ranges):
        if found and first == found[-1][1] + 1:
            found[-1] = (found[-1][0], last, 1)
        else:
            found.append((first, last, 1))
    return tuple(found)


def with_task(ranges: Ranges, task: int) -> Ranges:
    """Return the ranges with one more number, which they must not contain yet.

    The number extends a neighboring range if the steps allow it.
    """
    found: list[Range] = []
    for after in sorted((*ranges, (task, task, 1))):
        if found and (gap := _gap(found[-1], after)):
            found[-1] = (found[-1][0], after[1], gap)
        else:
            found.append(after)
    return tuple(found)


def _gap(before: Range, after: Range) -> int:
    """Return the step with which both ranges form a single range, or 0 if they do not."""
    gap = after[0] - before[1]
    steps = {step for first, last, step in (before, after) if first < last} or {1}
    return gap if steps == {gap} else 0


def split_ranges(ranges: Ranges, selected: Ranges) -> tuple[Ranges, Ranges]:
    """Return two sets of ranges: the numbers of `ranges` that are in `selected`, and the other numbers.

    Ranges that contain no selected number are copied as a whole, without looking at their numbers.
    """
    taken: list[Range] = []
    rest: list[Range] = []
    at, head = 0, None  # If `head` is not None, it is the part of ranges[at] that remains.
    for want in selected:
        if head is not None and head[1] < want[0]:
            rest.append(head)
            at, head = at + 1, None
        if head is None:
            before, at = at, bisect_left(ranges, want[0], lo=at, key=_LAST)
            rest += ranges[before:at]
        while at < len(ranges):
            each = ranges[at] if head is None else head
            if each[0] > want[1]:
                break
            head = _cut(each, want, taken, rest)
            if head is not None:
                break
            at += 1
    if head is not None:
        rest.append(head)
        at += 1
    return tuple(taken), (*rest, *ranges[at:])


def _cut(each: Range, want: Range, taken: list[Range], rest: list[Range]) -> Range | None:
    """Split the part of `each` up to the end of `want` into `taken` and `rest`, and return the part after it.

    `each` must not begin after the end of `want`.
    """
    first, last, step = each
    end = min(last, want[1] - (want[1] - first) % step)
    begin, gap = _first_common(each, want)
    if begin > end:
        rest.append(_range(first, end, step))
    else:
        final = begin + (end - begin) // gap * gap
        taken.append(_range(begin, final, gap))
        if first < begin:
            rest.append(_range(first, begin - step, step))
        if gap == 2 * step and begin < final:
            rest.append(_range(begin + step, final - step, gap))
        elif gap > step:
            rest += [_range(number + step, number + gap - step, step) for number in range(begin, final, gap)]
        if final < end:
            rest.append(_range(final + step, end, step))
    return _range(end + step, last, step) if end < last else None


def _first_common(each: Range, want: Range) -> tuple[int, int]:
    """Return the first number that both ranges can contain, and the distance to the next common numbers.

    Only the beginnings and steps count, not the ends. If the ranges have no number in common, the returned
    number lies after the ends of both.
    """
    first, last, step = each
    shared = math.gcd(step, want[2])
    off, uneven = divmod(want[0] - first, shared)
    if uneven:
        return max(last, want[1]) + 1, step
    period = want[2] // shared
    number = first + off * pow(step // shared, -1, period) % period * step
    gap = step * period
    return number + max(0, -(-(max(first, want[0]) - number) // gap)) * gap, gap


def _range(first: int, last: int, step: int) -> Range:
    return first, last, step if first < last else 1
