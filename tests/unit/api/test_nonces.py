"""Of each request it is known whether it creates something, and so carries a nonce."""

from __future__ import annotations

from typing import get_args

from warpdeck.api import protocol
from warpdeck.api.messages import Creating

CREATES = {"Command", "Rerun", "Run", "Salloc", "Session", "Srun", "Submit"}
CREATES_NOTHING_TWICE = {
    "Ack",
    "Amend",
    "Attach",
    "AwaitEnds",
    "AwaitMore",
    "Cancel",
    "Close",
    "CodeRecorded",
    "ConfigInForce",
    "Curves",
    "Diagnosis",
    "DryRun",
    "End",
    "Events",
    "FileRead",
    "Forecast",
    "Forward",
    "ForwardEnd",
    "ForwardPage",
    "Forwards",
    "HaveTree",
    "Hello",
    "Hold",
    "JobAnnotate",
    "JobEnvironment",
    "JobInfo",
    "JobUpdate",
    "Jobs",
    "Licenses",
    "LimitUse",
    "Log",
    "NodeAdd",
    "NodeCheck",
    "NodeDrain",
    "NodeRemove",
    "NodeResume",
    "Nodes",
    "NodesAt",
    "Partitions",
    "Past",
    "PastCosts",
    "PluginOptions",
    "Priorities",
    "PutTree",
    "QosList",
    "Records",
    "Release",
    "Reload",
    "Requeue",
    "ReservationMake",
    "ReservationRemove",
    "Reservations",
    "Resize",
    "Resume",
    "SallocAttach",
    "Settings",
    "Settle",
    "Shares",
    "Shutdown",
    "SrunAttach",
    "Status",
    "StepOrder",
    "Steps",
    "Subscribe",
    "Suspend",
    "Tell",
    "Tunnel",
}
"""Questions, orders that change nothing more when they come again, and what is made by its name. No client sends any of these again
by itself where it could do something twice:

Amend and JobAnnotate say what a value is to be, so a second one finds it so. Forward is made for its connection, and ends with it.
NodeAdd is refused where a node of its name is there. ReservationMake carries a name that its client has chosen, and is refused where
one of that name is there; a new run of `scontrol create reservation` without a name chooses another. Requeue is an order of a person,
and a second one is refused while the job waits ("waiting already").
"""


def test_every_request_is_known_to_create_something_or_not() -> None:
    of_clients = {each.__name__: each for each in get_args(protocol.ClientMessage)}
    assert {name for name, each in of_clients.items() if issubclass(each, Creating)} == CREATES
    assert of_clients.keys() - CREATES == CREATES_NOTHING_TWICE
