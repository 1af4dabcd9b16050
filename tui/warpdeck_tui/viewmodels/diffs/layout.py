"""Lays out differences for a width: a summary of the files, then their hunks, in one column or side by side.

Changed words within a line are marked. The signs carry the same information as the colors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.widgets.cells import fit, printable, shortened

from .parsing import DiffLine, FileDiff, Hunk, Parsed

SIDE_BY_SIDE_FROM = 140
"""Least width at which the old and the new lines stand beside each other."""
NUMBER_WIDTH = 5
TAB_COLUMNS = 4
MAX_LINE_CHARACTERS = 2000
MAX_COMPARED_CHARACTERS = 300
"""Lines longer than this have no marked words, because comparing them takes too long."""
MAX_COMPARED_PAIRS = 2000
LEAST_ALIKE = 0.5
"""Share of equal characters from which on two lines are two versions of one line."""
SUMMARY_NAME_COLUMNS = 60
SUMMARY_BAR_COLUMNS = 16
_STYLES = {"+": "added", "-": "removed", " ": ""}
_WORDS = re.compile(r"\w+|\s+|.")
Pieces = tuple[tuple[str, bool], ...]
"""A text in pieces, each with a mark that says whether it has changed."""


class Labels(NamedTuple):
    """The names of the old and the new state."""

    old: str
    new: str


class Laid(NamedTuple):
    """The lines, and the indexes of the lines at which files and hunks begin."""

    lines: tuple[Line, ...]
    files: tuple[int, ...] = ()
    hunks: tuple[int, ...] = ()


def lay_out(parsed: Parsed, labels: Labels, *, width: int, side_by_side: bool) -> Laid:
    """Return the lines of the whole page for this width."""
    painter = _Painter(width, side_by_side=side_by_side)
    lines: list[Line] = list(summary(parsed, labels, width=width))
    if parsed.is_cut:
        lines.append((Cell("The differences are cut here; `warpdeck snapshot diff` prints all", "warn"),))
    files: list[int] = []
    hunks: list[int] = []
    for file in parsed.files:
        lines.append(())
        files.append(len(lines))
        lines.append(_file_line(file, width))
        for number, hunk in enumerate(file.hunks):
            lines += [()] * bool(number)
            hunks.append(len(lines))
            if (title := hunk_line(hunk)) is not None:
                lines.append(title)
            lines += painter.hunk(hunk)
    return Laid(tuple(lines), tuple(files), tuple(hunks))


def file_lines(file: FileDiff, *, width: int) -> list[Line]:
    """Return the changes of one file in one column."""
    painter = _Painter(width, side_by_side=False)
    lines = [_file_line(file, width)]
    for hunk in file.hunks:
        lines.append(hunk_line(hunk) or ())
        lines += painter.hunk(hunk)
    return lines


def summary(parsed: Parsed, labels: Labels, *, width: int) -> list[Line]:
    """Return the list of changed files with the numbers of added and removed lines."""
    files = parsed.files
    sides = (
        Cell(f"- {printable(labels.old)}", "removed"),
        Cell("   "),
        Cell(f"+ {printable(labels.new)}", "added"),
    )
    note: list[Line] = [(Cell(parsed.note, "muted"),)] if parsed.note else []
    if not files:
        return [sides, (), (Cell("No differences", "muted"),), *note]
    added, removed = (sum(file.count(sign) for file in files) for sign in "+-")
    words = f"{len(files)} changed   "
    lines: list[Line] = [sides, (), (Cell(words, "title"), *_counts(added, removed))]
    names = [
        shortened(printable(file.path), min(SUMMARY_NAME_COLUMNS, max(12, width - 40))) for file in files
    ]
    room = max(map(cell_len, names))
    most = max(file.count("+") + file.count("-") for file in files)
    columns = max(0, min(SUMMARY_BAR_COLUMNS, width - room - 19))
    for file, name in zip(files, names, strict=True):
        plus, minus = file.count("+"), file.count("-")
        lines.append(
            (
                Cell(f"  {fit(name, room)}  ", ""),
                Cell(f"{f'+{plus}' if plus else '':>6}", "added"),
                Cell(f" {f'-{minus}' if minus else '':>6}  ", "removed"),
                *_share_bar(plus, minus, most, columns),
                Cell(f"  {file.note}" if file.note else "", "muted"),
            )
        )
    return lines + note


def _counts(added: int, removed: int) -> tuple[Cell, ...]:
    return Cell(f"+{added}", "added"), Cell(" "), Cell(f"-{removed}", "removed")


def _share_bar(added: int, removed: int, most: int, width: int) -> tuple[Cell, ...]:
    """Return the changes of a file as a bar, relative to the file with the most changes."""
    total = added + removed
    columns = min(width, max(1, round(width * total / most))) if total else 0
    green = round(columns * added / total) if total else 0
    return Cell("+" * green, "added"), Cell("-" * (columns - green), "removed")


def _file_line(file: FileDiff, width: int) -> Line:
    plus, minus = file.count("+"), file.count("-")
    cells = [
        Cell(f"{shortened(printable(file.path), max(12, width - 30))}  ", "title"),
        *(_counts(plus, minus) if plus or minus else ()),
        Cell(f"  {printable(file.note)}" if file.note else "", "muted"),
        Cell(" "),
    ]
    used = sum(cell_len(cell.text) for cell in cells)
    return (*cells, Cell("─" * max(0, width - used), "track"))


def hunk_line(hunk: Hunk) -> Line | None:
    """Return the title of a hunk: its first line and the function around it. Options have no line numbers."""
    first = next((line.new or line.old for line in hunk.lines if line.new or line.old), None)
    if first is None:
        return None
    where = f"   {printable(hunk.where.strip())}" if hunk.where.strip() else ""
    return (Cell(f"  line {first}", "accent"), Cell(where, "muted"))


class _Painter:
    """Draws the lines of hunks, and counts how many pairs of lines were compared word by word."""

    def __init__(self, width: int, *, side_by_side: bool) -> None:
        self._width = width
        self._beside = side_by_side
        self._half = (width - 1) // 2
        self._compared = 0

    def hunk(self, hunk: Hunk) -> Iterable[Line]:
        numbered = any(line.old or line.new for line in hunk.lines)
        for removed, added, same in _blocks(hunk.lines):
            before, after = self._marked(removed, added)
            if self._beside:
                yield from self._rows(removed, added, before, after, numbered=numbered)
            else:
                for line, pieces in zip((*removed, *added), (*before, *after), strict=True):
                    yield from self._unified(line, pieces, numbered=numbered)
            if same is not None:
                plain = ((shown(same.text), False),)
                if self._beside:
                    yield from self._rows([same], [same], [plain], [plain], numbered=numbered)
                else:
                    yield from self._unified(same, plain, numbered=numbered)

    def _marked(
        self, removed: Sequence[DiffLine], added: Sequence[DiffLine]
    ) -> tuple[list[Pieces], list[Pieces]]:
        """Return the texts of the lines, with the words marked in which a pair of lines differs."""
        before: list[Pieces] = [((shown(line.text), False),) for line in removed]
        after: list[Pieces] = [((shown(line.text), False),) for line in added]
        for at, (old, new) in enumerate(zip(before, after, strict=False)):
            if self._compared >= MAX_COMPARED_PAIRS:
                break
            self._compared += 1
            before[at], after[at] = changed_words(old[0][0], new[0][0])
        return before, after

    def _unified(self, line: DiffLine, pieces: Pieces, *, numbered: bool) -> Iterable[Line]:
        style = _STYLES[line.sign]
        numbers = f"{_number(line.old)}{_number(line.new)} " if numbered else "  "
        for row, part in enumerate(_wrapped(pieces, self._width - len(numbers) - 2)):
            begin = numbers if row == 0 else " " * len(numbers)
            yield (Cell(begin, "muted"), Cell(f"{line.sign} ", style), *_cells(part, style))

    def _rows(
        self,
        removed: Sequence[DiffLine],
        added: Sequence[DiffLine],
        before: Sequence[Pieces],
        after: Sequence[Pieces],
        *,
        numbered: bool,
    ) -> Iterable[Line]:
        for at in range(max(len(removed), len(added))):
            left = self._column(removed, before, at, numbered=numbered, is_new=False)
            right = self._column(added, after, at, numbered=numbered, is_new=True)
            empty = (Cell(" " * self._half),)
            for row in range(max(len(left), len(right))):
                yield (
                    *(left[row] if row < len(left) else empty),
                    Cell("│", "track"),
                    *(right[row] if row < len(right) else empty),
                )

    def _column(
        self, lines: Sequence[DiffLine], texts: Sequence[Pieces], at: int, *, numbered: bool, is_new: bool
    ) -> list[Line]:
        """Return the rows of one side, each exactly half as wide as the page."""
        if at >= len(lines):
            return []
        line, style = lines[at], _STYLES[lines[at].sign]
        number = f"{_number(line.new if is_new else line.old)} " if numbered else " "
        rows: list[Line] = []
        for part in _wrapped(texts[at], self._half - len(number) - 2):
            begin = number if not rows else " " * len(number)
            used = len(number) + 2 + sum(cell_len(text) for text, _ in part)
            rows.append(
                (
                    Cell(begin, "muted"),
                    Cell(f"{line.sign} ", style),
                    *_cells(part, style),
                    Cell(" " * max(0, self._half - used)),
                )
            )
        return rows


def _blocks(
    lines: Sequence[DiffLine],
) -> Iterable[tuple[list[DiffLine], list[DiffLine], DiffLine | None]]:
    """Return (removed lines, added lines, the unchanged line after them or None) in their order."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in lines:
        if line.sign == "-" and added:
            yield removed, added, None
            removed, added = [], []
        if line.sign == "-":
            removed.append(line)
        elif line.sign == "+":
            added.append(line)
        else:
            yield removed, added, line
            removed, added = [], []
    if removed or added:
        yield removed, added, None


def changed_words(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Return two lines in pieces, in which the words that differ are marked.

    Nothing is marked if the lines have little in common.
    """
    plain = ((old, False),), ((new, False),)
    if max(len(old), len(new)) > MAX_COMPARED_CHARACTERS:
        return plain
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    equal = sum(len("".join(before[i : i + n])) for i, _, n in matcher.get_matching_blocks())
    if 2 * equal < LEAST_ALIKE * (len(old) + len(new)):
        return plain
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        left += [("".join(before[i:i_end]), tag != "equal")] * (i_end > i)
        right += [("".join(after[j:j_end]), tag != "equal")] * (j_end > j)
    return tuple(left), tuple(right)


def _wrapped(pieces: Pieces, width: int) -> list[Pieces]:
    """Return the pieces in rows of at most `width` columns. There is at least one row."""
    width = max(8, width)
    rows: list[list[tuple[str, bool]]] = [[]]
    used = 0
    for text, mark in pieces:
        while used + cell_len(text) > width:
            head = (chop_cells(text, width - used) or [""])[0] if used < width else ""
            if head:
                rows[-1].append((head, mark))
                text = text[len(head) :]
            rows.append([])
            used = 0
        if text:
            rows[-1].append((text, mark))
            used += cell_len(text)
    return [tuple(row) for row in rows]


def _cells(pieces: Pieces, style: str) -> Line:
    return tuple(Cell(text, f"{style}-word" if mark and style else style) for text, mark in pieces)


def shown(text: str) -> str:
    """Return the text of a line as it is shown, without tabs and control characters."""
    return printable(text[:MAX_LINE_CHARACTERS].rstrip("\r").expandtabs(TAB_COLUMNS))


def _number(number: int | None) -> str:
    return f"{number:>{NUMBER_WIDTH}}" if number is not None else " " * NUMBER_WIDTH


def in_words(parsed: Parsed) -> str:
    """Return the summary in one line, such as "3 files, +12 -3"."""
    added, removed = (sum(file.count(sign) for file in parsed.files) for sign in "+-")
    return f"{plural(len(parsed.files), 'file')}, +{added} -{removed}" if parsed.files else "no differences"
