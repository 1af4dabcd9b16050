"""Convert messages of nodes into events. Pure functions."""

from __future__ import annotations

from typing import assert_never

from warpdeck.model import JobId, NodeName
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

from .events import Event, HealthReported, LaunchRefused, LaunchRevoked, NodeWarning, Reported, StepReported

NodeMessage = (
    wire.Remark | wire.Health | wire.JobReport | wire.GivenBack | wire.LaunchFailed | stepwire.StepReport
)


def decode_node_message(name: NodeName, message: NodeMessage, *, received_unix: float) -> Event:
    """Return the event for a message that arrived at `received_unix` on the controller's clock."""
    match message:
        case wire.Remark():
            return NodeWarning(name=name, message=message)
        case wire.Health():
            return HealthReported(name=name, health=message, received_unix=received_unix)
        case wire.JobReport():
            return Reported(name=name, report=message)
        case wire.GivenBack():
            keys = tuple((JobId(job_id), restarts) for job_id, restarts in message.launches)
            return LaunchRevoked(name=name, launches=keys)
        case wire.LaunchFailed():
            return LaunchRefused(name=name, failed=message)
        case stepwire.StepReport():
            return StepReported(name=name, report=message)
        case _:
            assert_never(message)
