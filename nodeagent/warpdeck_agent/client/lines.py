"""Writes tasks' output as srun does: unchanged, or line by line with the task's number before each line."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple, Union


class LabeledOutput:
    """Writes the output of tasks to descriptors.

    `label` says whether the lines of all tasks get labels, or lists the ranks of the tasks that get them.
    """

    def __init__(self, *, label: Union[bool, List[int]], tasks: int) -> None:
        self._labelled = frozenset(range(tasks) if label is True else label or ())
        self._width = len(str(max(0, tasks - 1)))
        self._open: Dict[Tuple[int, int], bytes] = {}

    def write(self, descriptor: int, rank: int, data: bytes) -> None:
        """Write output. Complete lines are written with their label; an incomplete line waits for its end."""
        if rank not in self._labelled:
            write_all(descriptor, data)
            return
        key = (descriptor, rank)
        *whole, rest = (self._open.pop(key, b"") + data).split(b"\n")
        if rest:
            self._open[key] = rest
        if whole:
            label = self._label(rank)
            write_all(descriptor, b"".join(label + line + b"\n" for line in whole))

    def finish(self) -> None:
        """Write incomplete lines."""
        for (descriptor, rank), rest in sorted(self._open.items()):
            write_all(descriptor, self._label(rank) + rest + b"\n")
        self._open.clear()

    def _label(self, rank: int) -> bytes:
        return f"{rank:>{self._width}}: ".encode()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
