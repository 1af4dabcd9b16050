"""Who may watch the terminal of an interactive job without touching it. Pure.

Owners and admins always; beyond them whom `[interactive] watch` names: nobody ("owner"), those of the job's account
("account"), or all who may submit here ("all").
"""

from __future__ import annotations

from warpdeck.config import Config
from warpdeck.model import Job
from warpdeck.ports.caller import Principal, is_namesake, may_touch


def may_watch(who: Principal, job: Job, config: Config) -> bool:
    """Whether this user may read what the terminal shows."""
    if may_touch(who, job):
        return True
    if config.interactive.watch == "account":
        account = config.accounts.get(job.request.account)
        both_are_in_it = account is not None and {who.user, job.user} <= account.users.keys()
        return both_are_in_it and not is_namesake(who, job)
    return config.interactive.watch == "all"
