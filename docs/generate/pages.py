"""All pages of the reference."""

from __future__ import annotations

from pathlib import Path

from .app_keys import app_page
from .configuration import configuration_page
from .json_answers import json_page
from .library import python_page
from .monitoring import monitoring_page
from .slurm import job_options_page, slurm_commands_page
from .verbs import commands_page

FOLDER = Path(__file__).parent.parent / "reference"
PAGES = {
    "commands.md": commands_page,
    "job-options.md": job_options_page,
    "slurm-commands.md": slurm_commands_page,
    "configuration.md": configuration_page,
    "json.md": json_page,
    "app.md": app_page,
    "python.md": python_page,
    "monitoring.md": monitoring_page,
}


def pages() -> dict[str, str]:
    """Return file name -> text of every page of the reference."""
    return {name: make() for name, make in PAGES.items()}


def stale(folder: Path = FOLDER) -> list[str]:
    """Return the names of the pages that differ from the code or are missing."""
    return [
        name
        for name, text in pages().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]
