"""Admission of jobs by the site's tables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.builders import node, pending

from warpdeck.config import build_site, decode
from warpdeck.model import Resources
from warpdeck.policy import PlannerView, admit

SITE = """
[partitions.gpu]
max_time = "2:00:00"
allow_accounts = ["lab"]
[partitions.staff]
allow_users = ["kim"]
[scheduler]
default_partition = "gpu"
[qos.normal]
[qos.urgent]
[accounts.lab]
qos = ["normal"]
[accounts.lab.users.ann]
max_submit_per_user = 2
[accounts.other.users.bob]
"""


def refusal(*, held: int = 0, must_fit: bool = True, **fields: Any) -> str:
    """Return the refusal of this job, or "" if it is admitted. `held` jobs of the user already wait."""
    site = build_site(decode(SITE, "f").config)
    view = PlannerView(
        nodes=(node("n1"),),
        running=(),
        pending=(),
        submitted={("lab", "ann", "normal"): held, ("other", "bob", ""): 9},
        partitions=site.partitions,
        qos=site.qos,
        accounts=site.accounts,
        users=site.users,
    )
    job = pending(1, **{"account": "lab", "gpus": 1, **fields})
    found = admit(job, view, site.settings, must_fit=must_fit)
    return "" if found is None else f"{found.code}: {found.sentence}"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, ""),
        ({"held": 1}, ""),
        (
            {"held": 2},
            "AssocMaxSubmitJobLimit: limit of user ann in account lab: 2 jobs in the queue for ann",
        ),
        ({"account": "other"}, "PartitionConfig: partition gpu does not admit account other"),
        ({"account": ""}, "PartitionConfig: partition gpu does not admit account (none)"),
        ({"user": "bob"}, "InvalidAccount: bob is not in account lab"),
        ({"partition": "staff"}, "PartitionConfig: partition staff does not admit user ann"),
        (
            {"partition": "staff", "user": "kim", "account": ""},
            "InvalidAccount: no account is given, and kim",
        ),
        ({"partition": "cpu"}, "PartitionConfig: there is no partition cpu"),
        ({"partition": "gpu,cpu"}, "PartitionConfig: there is no partition cpu"),
        ({"resources": Resources(exclude=("n1", "n9"))}, "InvalidNode: there is no node n9"),
        ({"limit_s": 3 * 3600}, "PartitionTimeLimit: requests"),
        ({"limit_s": None}, ""),
        ({"limit_s": None, "unlimited": True}, "PartitionTimeLimit: requests no time limit"),
        ({"qos": "urgent"}, "InvalidQOS: account lab may not use QoS urgent"),
        ({"qos": "wat"}, "InvalidQOS: there is no QoS wat"),
        ({"gpus": 9}, "BadConstraints: the job requests 9 GPUs"),
    ],
)
def test_a_refused_job_names_the_violated_rule(fields: dict[str, Any], sentence: str) -> None:
    found = refusal(**fields)
    assert found.startswith(sentence) if sentence else found == ""


def test_unknown_sizes_are_not_checked_but_other_rules_are() -> None:
    assert refusal(gpus=9, must_fit=False) == ""
    assert refusal(gpus=9, must_fit=False, user="bob").startswith("InvalidAccount")


GROUPS = """
[accounts.lab]
grp_submit = 5
[accounts.vision]
parent = "lab"
[accounts.vision.users.ann]
[accounts.speech]
max_submit_per_user = 4
[accounts.speech.users.ann]
[qos.normal]
max_submit_per_account = 3
"""


@pytest.mark.parametrize(
    ("submitted", "fields", "sentence"),
    [
        ({("vision", "ann", ""): 4}, {}, ""),
        (
            {("vision", "ann", ""): 3, ("lab", "bob", ""): 2},
            {},
            "AssocGrpSubmitJobsLimit: limit of account lab",
        ),
        ({("vision", "ann", ""): 3}, {"tasks": ((0, 2, 1),)}, "AssocGrpSubmitJobsLimit"),
        ({("other", "bob", ""): 9}, {}, ""),
        (
            {("speech", "ann", ""): 4},
            {"account": "speech"},
            "AssocMaxSubmitJobLimit: limit of account speech: 4 jobs in the queue for ann",
        ),
        ({("speech", "bob", ""): 4}, {"account": "speech"}, ""),
        ({("vision", "bob", "normal"): 3}, {"qos": "normal"}, "QOSMaxSubmitJobPerAccountLimit"),
        ({("vision", "bob", "normal"): 2}, {"qos": "normal"}, ""),
    ],
)
def test_submit_limits_count_all_jobs_below_the_account_or_qos(
    submitted: dict[tuple[str, str, str], int], fields: dict[str, Any], sentence: str
) -> None:
    site = build_site(decode(GROUPS, "f").config)
    tables = {"qos": site.qos, "accounts": site.accounts, "users": site.users}
    queue = PlannerView(nodes=(node("n1"),), running=(), pending=(), submitted=submitted, **tables)  # type: ignore[arg-type]
    found = admit(pending(1, **{"account": "vision", **fields}), queue, site.settings)
    refused = "" if found is None else f"{found.code}: {found.sentence}"
    assert refused.startswith(sentence) if sentence else refused == ""
