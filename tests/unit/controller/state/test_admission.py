"""Submissions are checked against the current rules and nodes."""

from __future__ import annotations

import pytest
from tests.support.core import BOB, Core, make_request

from warpdeck.base.errors import UserError
from warpdeck.config import build_site, decode
from warpdeck.controller.events.events import NodeRemoved
from warpdeck.model import NodeName


def rules(core: Core, text: str) -> None:
    core.state.site = build_site(decode(text, "f").config)


def test_admission_follows_removed_nodes() -> None:
    core = Core("a", "b")
    core.submit(make_request(gpus=1, nodes=2))
    core.submit(make_request(gpus=1, nodes=2))
    core.apply(NodeRemoved(name=NodeName("b")))
    with pytest.raises(UserError, match="the job requests 2 nodes; there are 1"):
        core.submit(make_request(gpus=1, nodes=2))


def test_admission_follows_changed_rules() -> None:
    core = Core("a", "b")
    core.submit(make_request(gpus=1, nodes=2))
    rules(core, '[partitions.p]\nnodes = "a"\n')
    with pytest.raises(UserError, match="there are 1 in partition p"):
        core.submit(make_request(gpus=1, nodes=2))
    rules(core, '[partitions.p]\nnodes = "a,b"\n')
    core.submit(make_request(gpus=1, nodes=2))


def test_a_job_gets_the_sites_defaults_for_missing_fields() -> None:
    core = Core("a")
    text = '[partitions.p]\n[qos.q]\n[accounts.lab]\ndefault_qos = "q"\nusers.ann = {}\n'
    rules(core, text)
    request = core.job(core.submit(make_request())).request
    assert (request.partition, request.account, request.qos) == ("p", "lab", "q")


def test_a_users_qos_take_precedence_over_those_of_the_account() -> None:
    core = Core("a")
    text = """[partitions.p]
[qos]
q = {}
r = {}
s = {}
[accounts.inst]
qos = ["q", "r"]
default_qos = "q"
[accounts.lab]
parent = "inst"
users.ann = { qos = ["s"], default_qos = "s" }
users.bob = {}
"""
    rules(core, text)
    assert core.job(core.submit(make_request())).request.qos == "s"
    with pytest.raises(UserError, match="ann in account lab may not use QoS q"):
        core.submit(make_request(qos="q"))
    assert core.job(core.submit(make_request(), who=BOB)).request.qos == "q"
    core.submit(make_request(qos="r"), who=BOB)
    with pytest.raises(UserError, match="account lab may not use QoS s"):
        core.submit(make_request(qos="s"), who=BOB)


def test_waiting_jobs_count_against_the_submit_limit() -> None:
    core = Core("a")
    rules(core, "[accounts.lab.users.ann]\nmax_submit_per_user = 2\n")
    core.submit(make_request(hold=True))
    core.submit(make_request(hold=True))
    with pytest.raises(UserError, match="2 jobs in the queue for ann"):
        core.submit(make_request())


def test_a_users_limit_does_not_affect_other_users() -> None:
    core = Core("a")
    rules(core, '[accounts.lab]\nusers.ann = { max_tres_per_job = "gres/gpu:h100=1" }\nusers.bob = {}\n')
    with pytest.raises(UserError, match="limit of user ann in account lab: 1 GPU"):
        core.submit(make_request(gpus=4))
    core.submit(make_request(gpus=4), BOB)
