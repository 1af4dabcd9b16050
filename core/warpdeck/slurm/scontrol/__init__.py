"""The scontrol command (`main`).

The modules show, job_text, site_text and site_json display objects; orders, changes and reserving change them.
"""

from .command import main

__all__ = ["main"]
