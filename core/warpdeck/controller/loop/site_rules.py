"""The site's configuration in force, and the membership of users in the Unix groups that it names.

The members of a group cannot be listed reliably, because some directories hide them and a group does not list
the users with this primary group. The groups of one user can be listed reliably. They are looked up for each
user who submits a job, and kept while the user has pending jobs.
"""

from __future__ import annotations

import asyncio
import grp
import logging
import os
import pwd
from collections.abc import Awaitable, Callable, Iterable, Mapping

from warpdeck.config import Config, Decoded, Site, SiteRights, build_site, changes, load, rights_by_user
from warpdeck.controller.state.state import State

from .wakeup import Wakeup

log = logging.getLogger("warpdeck.controller")
group_log = logging.getLogger("warpdeck.rules")
GROUPS_S = 300.0
"""Seconds between lookups of the Unix groups of all users with pending jobs. Lookups happen only if a
partition restricts access by group.
"""
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
            group_log.warning("user %s is in group %d, which has no name", user, gid)
    return frozenset(names)


class RulesInForce:
    """The rules in force.

    `site` is built again when the configuration or the known group memberships change.
    """

    def __init__(self, config: Config, groups_of: GroupsOf = unix_groups) -> None:
        self.config = config
        self.site: Site = build_site(config)
        self.rights: Mapping[str, SiteRights] = rights_by_user(config)
        """The rights of the users with more rights than an ordinary user."""
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
        """Put another configuration in force, and return a description of each change."""
        found = changes(self.config, config)
        self.config = config
        self.rights = rights_by_user(config)
        self._members = {group: self._members.get(group, set()) for group in self.groups_named()}
        self._build()
        return found

    def _build(self) -> None:
        self.site = build_site(self.config, members=self._members)


class SiteRules:
    """Applies the rules in force to the state, and keeps them up to date. `clock` returns Unix seconds."""

    def __init__(
        self,
        state: State,
        in_force: RulesInForce,
        *,
        clock: Callable[[], float],
        wakeup: Wakeup,
        lines: Mapping[tuple[str, ...], int],
        groups_every_s: float,
    ) -> None:
        self._state = state
        self._in_force = in_force
        self._clock = clock
        self._wakeup = wakeup
        self.lines = lines
        """Line number of each key of the current configuration in its file."""
        self.on_reload: Callable[[Config], Awaitable[None]] = _nothing
        """Called with each new configuration once it is in force."""
        self._groups_every_s = groups_every_s

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._in_force.config

    @property
    def rights(self) -> Mapping[str, SiteRights]:
        """The rights of the users with more rights than an ordinary user."""
        return self._in_force.rights

    def update_usage(self) -> None:
        """Update `state.site`, which holds the rules in force and the usage of all users and accounts."""
        state = self._state
        state.site = state.accounting.charged(state, self._in_force.site, now=self._clock())

    async def learn_groups(self, users: Iterable[str] | None = None) -> None:
        """Look up the Unix groups of these users if any rule depends on groups.

        Call this before the users submit. By default, look up the groups of all users with pending jobs.
        """
        if self._in_force.groups_named():
            names = self._waiting_users() if users is None else users
            self._in_force.learn(await asyncio.to_thread(self._in_force.look_up, names))
        self.update_usage()

    async def reload(self, path: str) -> tuple[list[str], Decoded]:
        """Put the configuration in this file in force, and return the list of changes and the decoded file.

        Raises ConfigError if the file has an error; then nothing changes. Running jobs continue. Pending jobs
        are planned again under the new rules.
        """
        decoded = await asyncio.to_thread(load, path)
        found = self._in_force.adopt(decoded.config)
        self.lines = decoded.lines
        await self.learn_groups()
        for line in found or ["nothing has changed"]:
            log.info("configuration: %s", line)
        self._wakeup.now()
        return found, decoded

    async def refresh_groups(self) -> None:
        """Look up the groups of all users with pending jobs periodically until cancelled."""
        while True:
            await asyncio.sleep(self._groups_every_s)
            before = self._in_force.site
            await self.learn_groups()
            if self._in_force.site is not before:
                self._wakeup.now()

    def _waiting_users(self) -> list[str]:
        return sorted({self._state.jobs[job_id].user for job_id in self._state.index.pending})


async def _nothing(config: Config) -> None: ...
