"""The long options of the commands of Slurm 26.05, as they were recorded from its help texts and manual pages."""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).parents[1] / "data/slurm/26.05/options.txt"


def newest_options() -> dict[str, list[str]]:
    """Return the long options of each command."""
    lines = [line for line in _FILE.read_text().splitlines() if not line.startswith("#")]
    return {command: options for command, *options in map(str.split, lines)}
