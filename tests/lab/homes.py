"""Homes whose user may log in to the lab's hosts."""

from __future__ import annotations

from pathlib import Path

from tests.support.home import Home

from .hosts import Lab


def start_home(lab: Lab, folder: Path, **environ: str) -> Home:
    """A home with its controller, which has no local node."""
    made = Home(folder / "home", HOME=str(lab.user_home(folder / "user")), SSH_AUTH_SOCK="", **environ)
    made.ok("up", "--no-local-node")
    return made


def end_home(made: Home) -> None:
    """Takes its nodes out, then ends it."""
    for node in made.json("node", "ls"):
        made.run("node", "rm", "--force", node["name"])
    made.close()
