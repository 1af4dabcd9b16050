"""Completes a path in a field as a shell does. Pure functions; the folder is read elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence


def split_path(text: str) -> tuple[str, str]:
    """Return (folder with its slash, beginning of the name) of an incomplete path."""
    head, slash, tail = text.rpartition("/")
    return head + slash, tail


def folder_of(text: str, base: str) -> str:
    """Return the folder in which the incomplete path `text` is completed. A relative path begins at `base`."""
    head, _ = split_path(text)
    return os.path.join(os.path.expanduser(base), os.path.expanduser(head)) or "."


def matching(text: str, entries: Iterable[tuple[str, bool]], *, only_folders: bool) -> list[str]:
    """Return the paths that continue `text`; those of folders end with a slash.

    `entries` are pairs (name, whether it is a folder). Hidden names are left out unless `text` names a dot.
    """
    head, tail = split_path(text)
    return [
        f"{head}{name}/" if is_folder else f"{head}{name}"
        for name, is_folder in entries
        if name.startswith(tail)
        and (is_folder or not only_folders)
        and (tail.startswith(".") or not name.startswith("."))
        and name.isprintable()
    ]


def completed(text: str, paths: Sequence[str]) -> str:
    """Return the text with all that its continuations have in common."""
    return os.path.commonprefix(list(paths)) or text  # noqa: RUF071  (a part of a name is wanted)
