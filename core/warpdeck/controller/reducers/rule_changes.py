"""The site's configuration in force, and the membership of users in the Unix groups that it names.

The members of a group cannot be listed reliably: directories hide them, and primary groups list none. The
groups of one user can. They are looked up for each user who submits a job and kept for the jobs that wait.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
from collections.abc import Callable, Iterable

from warpdeck.config import Config, Site, build_site, changes

log = logging.getLogger("warpdeck.rules")

GroupsOf = Callable[[str], frozenset[str]]
"""Returns the names of a user's groups. It blocks, because it may query a directory service."""


def unix_groups(user: str) -> frozenset[str]:
    """Return the groups of a user of this machine; an empty set for an unknown name."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return frozenset()
    names = set()
    for gid in os.getgrouplist(user, entry.pw_gid):
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            log.warning("user %s is in group %d, which has no name", user, gid)
    return frozenset(names)


class RulesInForce:
    """The rules in force.

    `site` is built again when the configuration or the known group memberships change.
    """

    def __init__(self, config: Config, groups_of: GroupsOf = unix_groups) -> None:
        self.config = config
        self.site: Site = build_site(config)
        self._groups_of = groups_of
        self._members: dict[str, set[str]] = {}

    def groups_named(self) -> frozenset[str]:
        """Return the groups that some partition requires."""
        return frozenset(
            group for partition in self.config.partitions.values() for group in partition.allow_groups or ()
        )

    def look_up(self, users: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the groups of each user. Blocks, but changes nothing, so it may run in a thread."""
        return {user: self._groups_of(user) for user in dict.fromkeys(users)}

    def learn(self, groups_by_user: dict[str, frozenset[str]]) -> None:
        """Store the looked-up groups in place of the earlier ones of these users."""
        before = {group: frozenset(users) for group, users in self._members.items()}
        for user, groups in groups_by_user.items():
            for group in self.groups_named():
                members = self._members.setdefault(group, set())
                if group in groups:
                    members.add(user)
                else:
                    members.discard(user)
        if before != self._members:
            self._build()

    def adopt(self, config: Config) -> list[str]:
        """Put another configuration in force. Returns the changes in words."""
        told = changes(self.config, config)
        self.config = config
        self._members = {group: self._members.get(group, set()) for group in self.groups_named()}
        self._build()
        return told

    def _build(self) -> None:
        self.site = build_site(self.config, members=self._members)
