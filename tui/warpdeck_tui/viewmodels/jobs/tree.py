"""The files of a snapshot as a tree of folders that can be opened and closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.widgets.cells import printable

OPEN_AT_MOST = 60
"""If there are more files than this, the folders are closed at first."""
INDENT = 2
_UNCHANGED: Mapping[str, tuple[int, int]] = {}


class Tree(NamedTuple):
    """The tree. `files` are ordered paths; `closed` are the paths of closed folders."""

    files: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()

    def turned(self, folder: str) -> Tree:
        """Return the tree with this folder opened or closed."""
        return self._replace(closed=self.closed ^ {folder})


def tree_of(paths: Iterable[str]) -> Tree:
    """Return the tree of these paths. Folders come before files, each sorted by name."""
    files = sorted(paths, key=lambda path: [(not rest, name) for name, rest in _steps(path)])
    closed = frozenset(path.split("/", 1)[0] for path in files if "/" in path)
    return Tree(tuple(files), closed if len(files) > OPEN_AT_MOST else frozenset())


Changes = Mapping[str, tuple[int, int]]
"""The numbers of added and removed lines by path."""


def tree_rows(tree: Tree, changes: Changes = _UNCHANGED) -> list[tuple[str, Line]]:
    """Return rows (path, cells). The path of a folder ends in a slash."""
    sums: dict[str, tuple[int, int]] = {}
    for path, (added, removed) in changes.items():
        for folder in _folders(path):
            before = sums.get(folder, (0, 0))
            sums[folder] = before[0] + added, before[1] + removed
    rows: list[tuple[str, Line]] = []
    counts: dict[str, int] = {}
    for path in tree.files:
        for folder in _folders(path):
            counts[folder] = counts.get(folder, 0) + 1
    seen: set[str] = set()
    for path in tree.files:
        folders = _folders(path)
        hidden = False
        for depth, folder in enumerate(folders):
            if not hidden and folder not in seen:
                seen.add(folder)
                cells = _folder(folder, depth, counts[folder], closed=folder in tree.closed)
                rows.append((f"{folder}/", (cells[0], *_changed(sums.get(folder)), cells[1])))
            hidden = hidden or folder in tree.closed
        if not hidden:
            name = path.rpartition("/")[2]
            title = Cell(" " * INDENT * len(folders) + "  " + printable(name))
            rows.append((path, (title, *_changed(changes.get(path)), Cell(""))))
    return rows


def _changed(counts: tuple[int, int] | None) -> Line:
    """Return the cells for the added and the removed lines."""
    added, removed = counts or (0, 0)
    return Cell(f"+{added}" if added else "", "added"), Cell(f"-{removed}" if removed else "", "removed")


def _folder(folder: str, depth: int, count: int, *, closed: bool) -> Line:
    sign = "▸" if closed else "▾"
    name = printable(folder.rpartition("/")[2])
    return Cell(f"{' ' * INDENT * depth}{sign} {name}/", "accent"), Cell(plural(count, "file"), "muted")


def _folders(path: str) -> list[str]:
    """Return the folders that contain the path, the outermost first."""
    names = path.split("/")[:-1]
    return ["/".join(names[: depth + 1]) for depth in range(len(names))]


def _steps(path: str) -> Sequence[tuple[str, bool]]:
    """Return pairs (name, whether more follows) for the parts of the path."""
    names = path.split("/")
    return [(name, at < len(names) - 1) for at, name in enumerate(names)]
