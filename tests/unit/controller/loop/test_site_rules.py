"""The configuration in force, and the members of the groups that it names."""

from __future__ import annotations

import getpass
import grp
import os

from warpdeck.config import Config, decode
from warpdeck.controller.loop.site_rules import RulesInForce, unix_groups

GROUPS = {"ann": frozenset({"phys", "staff"}), "bob": frozenset({"chem"})}
TWO = '[partitions.p]\nallow_groups = ["phys"]\n[partitions.q]\nallow_groups = ["chem", "phys"]\n'


def rules(text: str) -> RulesInForce:
    return RulesInForce(decode(text, "f").config, lambda user: GROUPS.get(user, frozenset()))


def allowed(made: RulesInForce) -> dict[str, frozenset[str] | None]:
    return {each.name: each.allow_users for each in made.site.partitions}


def test_users_are_admitted_once_their_groups_are_known() -> None:
    made = rules(TWO)
    assert allowed(made) == {"p": frozenset(), "q": frozenset()}
    made.learn(made.look_up(["ann", "bob", "eve"]))
    assert allowed(made) == {"p": frozenset({"ann"}), "q": frozenset({"ann", "bob"})}


def test_a_user_who_left_a_group_is_not_admitted() -> None:
    made = rules(TWO)
    made.learn(made.look_up(["ann", "bob"]))
    made.learn({"ann": frozenset({"chem"})})
    assert allowed(made) == {"p": frozenset(), "q": frozenset({"ann", "bob"})}


def test_known_groups_do_not_rebuild_the_site() -> None:
    made = rules(TWO)
    made.learn(made.look_up(["ann"]))
    before = made.site
    made.learn(made.look_up(["ann"]))
    assert made.site is before


def test_a_new_configuration_keeps_the_known_groups() -> None:
    made = rules(TWO)
    made.learn(made.look_up(["ann"]))
    differences = made.adopt(decode('[partitions.p]\nallow_groups = ["phys", "new"]\n', "f").config)
    assert differences == ["partitions.q: removed", 'partitions.p.allow_groups: ["phys"] -> ["phys", "new"]']
    assert allowed(made) == {"p": frozenset({"ann"})}
    assert made.adopt(made.config) == []


def test_a_configuration_without_groups_needs_no_lookup() -> None:
    assert RulesInForce(Config()).groups_named() == frozenset()


def test_the_groups_of_this_machines_users_are_found() -> None:
    user = getpass.getuser()
    assert grp.getgrgid(os.getgid()).gr_name in unix_groups(user)
    assert unix_groups("nobody-has-this-name") == frozenset()
