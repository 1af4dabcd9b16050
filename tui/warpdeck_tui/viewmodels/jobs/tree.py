"""The files of a snapshot as a tree of folders that can be opened and closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.widgets.cells import printable

OPEN_AT_MOST = 60
"""If there are more files than this, the folders are closed at first."""
INDENT = 2


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


def tree_rows(tree: Tree) -> list[tuple[str, Line]]:
    """Return rows (path, cells). The path of a folder ends in a slash."""
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
                rows.append(
                    (f"{folder}/", _folder(folder, depth, counts[folder], closed=folder in tree.closed))
                )
            hidden = hidden or folder in tree.closed
        if not hidden:
            name = path.rpartition("/")[2]
            rows.append((path, (Cell(" " * INDENT * len(folders) + "  " + printable(name)), Cell(""))))
    return rows


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
