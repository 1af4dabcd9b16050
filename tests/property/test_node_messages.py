"""Any message of a node is either rejected, or can be stored, shown and used for planning.

No message changes anything about other nodes' jobs. The messages are generated from their types, mostly at the
limits of the types, and go through the controller's decoder.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import msgspec.inspect as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import type_values
from tests.support.core import Core, make_request

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.base.site_seal import SiteSeal
from warpdeck.controller.events.events import NodeUp
from warpdeck.controller.events.node_messages import decode_node_message
from warpdeck.controller.loop.fences import Fences
from warpdeck.controller.presenters.job_columns import job_detail, job_row
from warpdeck.controller.presenters.node_facts import node_facts
from warpdeck.controller.presenters.node_rows import node_health_row, node_row
from warpdeck.controller.state.measurements import to_reading
from warpdeck.fleet.field_limits import MAX_TEXT_CHARS, with_field_limits
from warpdeck.fleet.inbound import decode
from warpdeck.model import NodeName
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

LIAR, HONEST = NodeName("liar"), NodeName("honest")
TEXTS = [
    "",
    "a",
    "running",
    "exited",
    "lost",
    "fail",
    "requeued",
    "disk",
    "liar-0",
    "honest-0",
    "\0",
    "\udcff",
    "\x1b[2J",
]
TEXTS += ["spool:", "%j" * 100, "cpu_s", "launch_failed", "oom", "9" * 1000, "x" * MAX_TEXT_CHARS]
STRANGE = [math.nan, math.inf, 1e308, 2**64, 10**400, "9" * (MAX_TEXT_CHARS + 1)]
MESSAGE_TYPES = [
    wire.JobReport,
    wire.LaunchFailed,
    wire.GivenBack,
    wire.Remark,
    wire.Sample,
    wire.Health,
    wire.Welcome,
]
STEPS = [stepwire.StepReport, stepwire.StepFence]


def values(kind: types.Type) -> st.SearchStrategy[Any]:
    return type_values.values(kind, texts=TEXTS, fields=message_fields)


def message_fields(kind: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return fields of that message: the required ones, some others, and sometimes one out of its bounds."""
    info = types.type_info(with_field_limits(kind))
    assert isinstance(info, types.DataclassType)
    fields = [each for each in info.fields if each.name != "t"]
    known = {each.name: fixed.get(each.name, values(each.type)) for each in fields}
    must = {each.name for each in fields if each.required}
    tag = {"t": kind.t} if "t" in kind.__dataclass_fields__ else {}
    sane = type_values.some_of(known, must=must, most=5).map(lambda made: made | tag)
    wild = st.tuples(sane, st.sampled_from(sorted(known)), st.sampled_from(STRANGE))
    strange = wild.map(lambda made: {**made[0], made[1]: made[2]})
    return st.integers(0, 30).flatmap(lambda dice: strange if dice == 30 else sane)


SMALL = st.integers(0, 6)
ABOUT = {"job_id": SMALL, "restarts": st.integers(0, 1), "step": st.integers(0, 1)}
MESSAGES = st.one_of(*(message_fields(kind, **ABOUT) for kind in [*MESSAGE_TYPES, *STEPS]))


def cluster() -> Core:
    """Return a cluster with jobs on each node and on both, waiting jobs, and a step on both.

    The other node sends nothing more.
    """
    core = Core(HONEST, LIAR)
    core.state.starts.seal = SiteSeal("a secret that the nodes do not know")
    for _ in range(2):
        core.run(make_request(gpus=4))
    core.submit(make_request(gpus=4, nodes=2))
    core.submit(make_request(name="waits", gpus=1))
    return core


def others(core: Core) -> list[Any]:
    """Return everything that a node's message must not change."""
    jobs = [
        job
        for job in core.state.jobs.values()
        if job.holds_resources and LIAR not in [share.node for share in job.shares]
    ]
    steps = [step for job in jobs for step in core.state.steps.get(job.id, {}).values()]
    return [*jobs, *steps, core.state.nodes[HONEST]]


def take(core: Core, message: Any) -> None:
    """Process a message as the controller's loop does."""
    match message:
        case wire.Sample():
            core.state.node_status.readings[LIAR] = to_reading(message)
            core.state.view_cache.blocked(core.state, LIAR)
        case stepwire.StepFence():
            Fences().handle(LIAR, message, core.state)
        case wire.Welcome():
            core.apply(NodeUp(name=LIAR, welcome=message))
        case _:
            core.apply(decode_node_message(LIAR, message, received_unix=core.now))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_messages_of_a_node_do_not_affect_other_nodes(sent: list[dict[str, Any]]) -> None:
    core = cluster()
    before = others(core)
    assert len(before) == 2
    for each in sent:
        try:
            message = decode(
                json.dumps(each, ensure_ascii="9" * 9 in str(each)).encode("utf-8", "surrogatepass")
            )
        except WireError:
            continue
        try:
            take(core, message)
        except (UserError, InvalidTransition):
            continue
    assert others(core)[:2] == before
    assert core.state.may_start, "a node can stop the site"
    core.plan()
    for node in core.state.nodes.values():
        msgspec.json.encode([node_row(core.state, node), node_health_row(core.state, node)])
    msgspec.json.encode(node_facts(core.state, core.state.nodes.values(), now=core.now))
    for job in core.state.jobs.values():
        msgspec.json.encode([job_row(core.state, job), job_detail(core.state, job, [])])
    for kept in (*core.state.jobs.values(), *core.state.nodes.values()):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=type(kept)) == kept
