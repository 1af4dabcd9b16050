"""scontrol: the command (`main`), what it shows (show, jobtext, sitetext) and what it changes (orders, changes, reserving)."""

from .command import main

__all__ = ["main"]
