"""The changes of config.toml that each user may make. tests/slurm_parity/administration/test_rights.py compares them with Slurm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import check_amendments, decode, rights_by_user, text_for
from warpdeck.model.admin_level import AdminLevel
from warpdeck.model.config_edit import Amendment
from warpdeck.ports.caller import Principal

CONFIG = decode(
    """
[mail]
webhook = "https://secret.example"
[hooks]
prolog = "/etc/prolog"
[accounts.lab]
coordinators = ["cora"]
[accounts.lab.users.ann]
[accounts.sub]
parent = "lab"
[accounts.below]
parent = "sub"
[accounts.other.users.bob]
[users.otto]
admin_level = "operator"
[users.ada]
admin_level = "administrator"
""",
    "config.toml",
).config
RIGHTS = rights_by_user(CONFIG)
EVERYONE = ("bob", "cora", "otto", "ada", "root")
COORDINATED = EVERYONE[1:]
OPERATORS = EVERYONE[2:]
ADMINISTRATORS = EVERYONE[3:]
ROOT = EVERYONE[4:]


def principal(name: str) -> Principal:
    if name not in RIGHTS:
        return Principal(user=name, uid=0 if name == "root" else 1, admin=name == "root")
    return Principal(user=name, uid=2, level=RIGHTS[name].level, coordinates=RIGHTS[name].coordinates)


def may(name: str, *changes: tuple[str, Mapping[str, Any] | None]) -> bool:
    made = tuple(
        msgspec.convert({"path": path.split("."), "values": values}, Amendment) for path, values in changes
    )
    try:
        check_amendments(principal(name), made, CONFIG)
    except UserError as error:
        assert error.code == "not_admin"
        return False
    return True


def test_a_coordinator_has_the_accounts_below_too() -> None:
    assert RIGHTS["cora"].coordinates == {"lab", "sub", "below"} and RIGHTS["cora"].level is AdminLevel.NONE
    assert RIGHTS.keys() == {"cora", "otto", "ada"}


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        (("accounts.lab.users.eve", {}), COORDINATED),
        (("accounts.lab.users.ann", {"grp_jobs": 3}), COORDINATED),
        (("accounts.lab.users.ann", None), COORDINATED),
        (("accounts.lab.users.ann", {"qos": ["high"]}), OPERATORS),
        (("accounts.lab.users.ann", {"default_qos": "high"}), OPERATORS),
        (("accounts.other.users.bob", {"grp_jobs": 3}), OPERATORS),
        (("accounts.lab", {"grp_jobs": 3}), OPERATORS),
        (("accounts.lab", {"coordinators": ["eve"]}), COORDINATED),
        (("accounts.lab", {"coordinators": ["eve"], "grp_jobs": 3}), OPERATORS),
        (("accounts.other", {"coordinators": ["cora"]}), OPERATORS),
        (("accounts.sub", {"grp_jobs": 3}), COORDINATED),
        (("accounts.sub", {"description": "x"}), OPERATORS),
        (("accounts.sub", {"quota": "gres/gpu=8"}), OPERATORS),
        (("accounts.sub", {"parent": "other"}), OPERATORS),
        (("accounts.sub", {"parent": None}), OPERATORS),
        (("accounts.below", {"parent": "lab"}), COORDINATED),
        (("accounts.other", {"parent": "lab"}), OPERATORS),
        (("accounts.sub", None), OPERATORS),
        (("accounts.new", {"parent": "sub"}), COORDINATED),
        (("accounts.new", {"parent": "sub", "quota": "gres/gpu=8"}), OPERATORS),
        (("accounts.new", {}), OPERATORS),
        (("accounts", None), OPERATORS),
        (("users.bob", {"admin_level": "administrator"}), ADMINISTRATORS),
        (("users.otto", {"admin_level": "administrator"}), ADMINISTRATORS),
        (("users.bob", None), ADMINISTRATORS),
        (("users", None), ADMINISTRATORS),
        (("qos.high", {}), ADMINISTRATORS),
        (("partitions.gpu", {}), ADMINISTRATORS),
        (("hooks", {"prolog": "/tmp/x"}), ROOT),
        (("containment", {"devices": False}), ROOT),
        (("health", {"program": "/tmp/x"}), ROOT),
        (("interactive", {"watch": "all"}), ROOT),
        (("mail", {"program": "/tmp/x"}), ROOT),
        (("access", {"private_data": []}), ROOT),
        (("scheduler", {"backfill": "none"}), ROOT),
    ],
)
def test_each_change_needs_its_rights(
    change: tuple[str, Mapping[str, Any] | None], allowed: tuple[str, ...]
) -> None:
    assert tuple(name for name in EVERYONE if may(name, change)) == allowed


def test_one_change_without_the_right_refuses_all_of_them() -> None:
    assert not may("cora", ("accounts.lab.users.eve", {}), ("accounts.other.users.eve", {}))


def test_an_operator_takes_a_level_only_together_with_all_accounts() -> None:
    level = ("users.bob", None)
    assert may("otto", ("accounts.other.users.bob", None), level) and may(
        "otto", ("accounts.other", None), level
    )
    assert not may("otto", ("accounts.lab.users.bob", None), level)


def test_a_coordinator_fills_an_account_that_the_same_request_creates() -> None:
    assert may("cora", ("accounts.new", {"parent": "lab"}), ("accounts.new.users.eve", {}))
    assert not may("cora", ("accounts.new", {"parent": "other"}), ("accounts.new.users.eve", {}))


def test_the_configuration_is_read_as_far_as_it_may_be_changed() -> None:
    assert "secret" in text_for(principal("root"), CONFIG) and "prolog" in text_for(principal("root"), CONFIG)
    for name in ("cora", "otto", "ada"):
        text = text_for(principal(name), CONFIG)
        assert "secret" not in text and "prolog" not in text
        assert decode(text, "x").config.accounts == CONFIG.accounts
    with pytest.raises(UserError) as refused:
        text_for(principal("bob"), CONFIG)
    assert refused.value.code == "not_admin"
