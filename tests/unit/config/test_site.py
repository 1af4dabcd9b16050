"""The planner's view of the tables in the file."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import msgspec
from tests.unit.config.test_decode import EXAMPLE

from warpdeck.config import Config, NodeSettings, UsageTotals, build_site, decode, read, with_usage
from warpdeck.config import site as site_module
from warpdeck.config.tables import LimitTable
from warpdeck.model import NodeName
from warpdeck.policy import Limits, PlannerSettings


def test_without_a_file_the_planner_uses_its_defaults() -> None:
    site = build_site(Config())
    assert site.settings == PlannerSettings()
    assert (site.partitions, site.qos, site.accounts, site.users) == ((), (), (), ())


def test_every_setting_and_limit_of_the_policy_is_configurable() -> None:
    source = inspect.getsource(site_module)
    for field in (*PlannerSettings.__struct_fields__, *Limits.__struct_fields__):
        assert f"{field}=" in source, f"{field} cannot be set in config.toml"


def test_each_limit_of_a_qos_reaches_the_planner() -> None:
    text = "\n".join(
        ["[qos.a]"]
        + [
            f'{name} = "cpu={number}"' if "tres" in name else f"{name} = {number}"
            for number, name in enumerate(LimitTable.__struct_fields__, 1)
            if "wall" not in name
        ]
        + ['max_wall = "2:00:00"']
    )
    limits = build_site(decode(text, "f").config).qos[0].limits
    for number, name in enumerate(LimitTable.__struct_fields__, 1):
        if "wall" not in name:
            assert getattr(limits, name) == ({"cpu": number} if "tres" in name else number)
    assert limits.max_wall_s == 7200


def test_the_example_gives_sorted_tables() -> None:
    site = build_site(read(str(EXAMPLE)).config, members={"staff": ["kim"], "other": ["lee"]})
    assert [each.name for each in site.partitions] == ["gpu", "short", "staff"]
    assert site.partitions[2].allow_users == frozenset({"guest", "kim"})
    assert site.partitions[2].deny_qos == frozenset({"scavenger"})
    assert site.partitions[0].allow_users is None
    assert site.partitions[0].nodes == frozenset(f"gpu{number:02d}" for number in range(1, 17))
    assert [(user.user, user.account) for user in site.users] == [
        ("ann", "speech"),
        ("ann", "vision"),
        ("bob", "vision"),
        ("eve", "speech"),
    ]
    assert site.default_accounts == {"ann": "vision", "bob": "vision", "eve": "speech"}
    assert site.default_qos[("vision", "")] == "normal"
    assert site.accounts[0].quota == {"gres/gpu": 64}
    assert site.licenses == (("matlab", 10),)
    assert site.nodes[NodeName("gpu09")] == NodeSettings(
        features=frozenset({"h100", "ib"}), switch="leaf2", weight=10, comment="second rack"
    )
    assert site.half_life_s == 14 * 86_400


def test_a_partition_for_a_group_without_known_members_is_closed() -> None:
    config = decode('[partitions.p]\nallow_groups = ["g"]\n', "f").config
    assert build_site(config).partitions[0].allow_users == frozenset()


def test_a_single_partition_is_the_default() -> None:
    assert build_site(decode("[partitions.p]", "f").config).settings.default_partition == "p"
    assert build_site(decode("[partitions.p]\n[partitions.q]", "f").config).settings.default_partition == ""


def test_reservations_accept_scontrols_flags() -> None:
    config = decode(
        "[reservations.r]\nusers = ['u']\nnodes = 'n1'\nflags = ['magnetic', 'FLEX', 'NO_HOLD']\n"
        "[reservations.s]\nstart = 2027-01-01T00:00:00Z\nduration = '60'\nflags = ['MAINT,DAILY']\n",
        "f",
    ).config
    first, second = build_site(config).reservations
    assert (first.magnetic, first.flex, first.hold_jobs_after) == (True, True, False)
    assert (second.maintenance, second.repeat, second.magnetic) == (True, "daily", False)


def test_reservations_get_their_times_and_default_to_all_nodes() -> None:
    config = decode(
        "[reservations.always]\nmaintenance = true\n"
        "[reservations.then]\nusers = ['u']\nnodes = 'n1'\nstart = 2027-01-01T00:00:00Z\nduration = '60'\n",
        "f",
    ).config
    always, then = build_site(config).reservations_on([NodeName("n1"), NodeName("n2")])
    assert always.nodes == frozenset({"n1", "n2"})
    assert (always.start_unix, always.end_unix) == (0.0, math.inf)
    assert then.nodes == frozenset({"n1"})
    assert (then.start_unix, then.end_unix) == (1_798_761_600.0, 1_798_765_200.0)


def test_usage_is_assigned_to_account_user_and_qos() -> None:
    config = decode("[accounts.a.users.u]\n[qos.q]\n", "f").config
    usage = UsageTotals(
        accounts={"a": 5.0},
        users={("u", "a"): 4.0},
        account_tres={"a": {"cpu": 1.0}},
        user_tres={("u", "a"): {"cpu": 2.0}},
        qos={"q": {"cpu": 3.0}},
    )
    site = with_usage(build_site(config), usage)
    assert (site.accounts[0].usage, site.accounts[0].tres_usage) == (5.0, {"cpu": 1.0})
    assert (site.users[0].usage, site.users[0].tres_usage) == (4.0, {"cpu": 2.0})
    assert site.qos[0].usage == {"cpu": 3.0}


def test_a_site_with_ten_thousand_users_is_read(tmp_path: Path) -> None:
    text = "".join(
        f'[accounts.a{n}]\nshares = {n}\ngrp_tres = "gres/gpu=8"\n'
        + "".join(f'users.u{n}_{m} = {{ max_wall = "1-0" }}\n' for m in range(20))
        for n in range(500)
    )
    path = tmp_path / "config.toml"
    path.write_text(text)
    site = build_site(read(str(path)).config)
    assert len(site.users) == 10_000
    assert msgspec.structs.asdict(site.users[0].limits)["max_wall_s"] == 86_400
