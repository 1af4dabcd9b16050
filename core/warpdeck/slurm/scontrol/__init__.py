"""The scontrol command (`main`).

The modules show, job_text, site_text and site_json display objects; job_actions,
update_keyword, partitions and reservation_changes change them. `keywords` is the table of all of them.
"""

from .scontrol import main

__all__ = ["main"]
