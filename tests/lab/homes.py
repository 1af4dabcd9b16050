"""Homes of users who may log in to the lab's hosts."""

from __future__ import annotations

from pathlib import Path

from tests.support.home import Home

from .hosts import Lab


def start_home(lab: Lab, folder: Path, **environ: str) -> Home:
    """Return a home with a running controller and no local node."""
    home = Home(folder / "home", HOME=str(lab.user_home(folder / "user")), SSH_AUTH_SOCK="", **environ)
    home.ok("up", "--no-local-node")
    return home


def end_home(home: Home) -> None:
    """Remove the nodes of the home and stop its controller."""
    for node in home.json("node", "ls"):
        home.run("node", "rm", "--force", node["name"])
    home.close()
