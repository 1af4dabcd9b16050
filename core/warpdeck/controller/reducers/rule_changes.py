"""The site's configuration in force, and which of the users that it asks about are in the Unix groups that it names.

A group's members cannot be listed reliably (directories hide them, primary groups have none), but a user's groups can: so
they are looked up for each user who submits, and remembered for jobs that wait.
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
"""User -> names of the groups. Blocks: a directory may be asked."""


def unix_groups(user: str) -> frozenset[str]:
    """The groups of a user of this machine; none for a name that it does not know."""
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
    """What holds now. `site` is made anew when the configuration, or what is known of the groups, changes."""

    def __init__(self, config: Config, groups_of: GroupsOf = unix_groups) -> None:
        self.config = config
        self.site: Site = build_site(config)
        self._groups_of = groups_of
        self._members: dict[str, set[str]] = {}

    def groups_named(self) -> frozenset[str]:
        """The groups that some partition asks about."""
        return frozenset(
            group for partition in self.config.partitions.values() for group in partition.allow_groups or ()
        )

    def look_up(self, users: Iterable[str]) -> dict[str, frozenset[str]]:
        """User -> groups. Blocks; changes nothing, so it may run in a thread."""
        return {user: self._groups_of(user) for user in dict.fromkeys(users)}

    def learn(self, groups_by_user: dict[str, frozenset[str]]) -> None:
        """Takes up what was looked up, in place of what was known of these users."""
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
        """Puts another configuration in force; what has changed, in words."""
        told = changes(self.config, config)
        self.config = config
        self._members = {group: self._members.get(group, set()) for group in self.groups_named()}
        self._build()
        return told

    def _build(self) -> None:
        self.site = build_site(self.config, members=self._members)
