"""The scontrol command (`main`).

The modules show, jobtext and sitetext display objects; orders, changes and reserving change them.
"""

from .command import main

__all__ = ["main"]
