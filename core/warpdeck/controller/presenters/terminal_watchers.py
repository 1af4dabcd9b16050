"""Permission to watch the terminal of an interactive job without writing to it.

The job's owner and admins may always watch. The setting `[interactive] watch` may permit others: nobody
("owner"), the users of the job's account ("account"), or everyone who may submit here ("all"). All functions
are pure.
"""

from __future__ import annotations

from warpdeck.config import Config
from warpdeck.model import Job
from warpdeck.ports.caller import Principal, is_namesake, may_access


def may_watch(principal: Principal, job: Job, config: Config) -> bool:
    """Return whether this user may read the job's terminal."""
    if may_access(principal, job):
        return True
    if config.interactive.watch == "account":
        account = config.accounts.get(job.request.account)
        both_are_in_it = account is not None and {principal.user, job.user} <= account.users.keys()
        return both_are_in_it and not is_namesake(principal, job)
    return config.interactive.watch == "all"
