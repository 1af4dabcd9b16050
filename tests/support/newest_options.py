"""The long options and output fields of the commands of Slurm 26.05, as they were recorded from its programs."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "data/slurm/26.05"


def newest_options() -> dict[str, list[str]]:
    """Return the long options of each command."""
    return _words("options.txt")


def newest_fields() -> dict[str, list[str]]:
    """Return the output fields of each listing."""
    return _words("fields.txt")


def _words(name: str) -> dict[str, list[str]]:
    lines = [line for line in (_FOLDER / name).read_text().splitlines() if not line.startswith("#")]
    return {command: words for command, *words in map(str.split, lines)}
