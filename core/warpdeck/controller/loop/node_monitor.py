"""Receive the messages of nodes: samples are stored at once, and all other messages become events for the
main loop.

The module also sets the interval of each node's samples, and requests health reports.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from warpdeck.base.controller_starts import fenced_sentence
from warpdeck.controller.events.effects import RequestHealth
from warpdeck.controller.events.events import Fenced, NodeLost, NodeUp
from warpdeck.controller.events.node_messages import decode_node_message
from warpdeck.controller.state.measurements import to_reading
from warpdeck.controller.state.state import State
from warpdeck.model import NodeName
from warpdeck.ports.ports import Fleet, FleetEvent
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

from .change_listeners import ChangeListeners
from .effects import EffectRunner
from .event_queue import EventQueue
from .fences import Fences
from .sample_rate import SampleRate
from .wakeup import Wakeup

log = logging.getLogger("warpdeck.controller")

MAX_AT_ONCE = 300
"""Maximum number of requests per half minute. This is ten per second, in addition to the samples of all
nodes. At this rate 1,000 nodes are all asked within two minutes.
"""


class HealthPolling:
    """Selects the nodes from which a health report is requested.

    Nodes report changes of their health on their own. A health request compares the clocks and sends the site's
    health check settings to the node. An answer costs the controller about as much as a sample, so the nodes of a
    large site are asked in rotation.
    """

    def __init__(self) -> None:
        self._last = NodeName("")

    def next(self, up: Iterable[NodeName]) -> list[NodeName]:
        """Return the next nodes to ask among the nodes that are up.

        Nodes are taken in the order of their names. After the last name the first one follows.
        """
        names = sorted(up)
        first = bisect_right(names, self._last)
        chosen = (names[first:] + names[:first])[:MAX_AT_ONCE]
        if chosen:
            self._last = chosen[-1]
        return chosen


class NodeMonitor:
    """Receives the messages of all nodes of one controller."""

    def __init__(
        self,
        state: State,
        *,
        fleet: Fleet,
        clock: Callable[[], float],
        queue: EventQueue,
        effects: EffectRunner,
        hub: ChangeListeners,
        wakeup: Wakeup,
    ) -> None:
        self._state = state
        self._fleet = fleet
        self._clock = clock
        self._queue = queue
        self._effects = effects
        self._hub = hub
        self._wakeup = wakeup
        self._fences = Fences()
        self._sampling = SampleRate()
        self._polling = HealthPolling()
        self.stalls = asyncio.Event()
        """Set by each sample in which a node suspects a job to hang."""

    def post(self, event: FleetEvent) -> None:
        """Handle a message of a node."""
        name, message = event
        match message:
            case wire.Sample():  # Samples come first because nearly all messages are samples.
                self._take_sample(name, message)
            case str():
                self._queue.put(NodeLost(name=name, reason=message.partition(":")[2].strip()))
            case wire.Welcome():
                self._queue.put(NodeUp(name=name, welcome=message))
                self._effects.add([RequestHealth(node=name)])
                self._effects.add(self._sampling.on_connect(name, nodes=len(self._state.nodes)))
            case wire.Refused():
                self._fence(message.holder)
            case stepwire.StepFence():
                self._effects.add(self._fences.handle(name, message, self._state))
            case _:
                self._queue.put(decode_node_message(name, message, received_unix=self._clock()))

    def _fence(self, holder: wire.ControllerStart) -> None:
        """Close all links at once, and record the fence. Without links, nothing can be launched, ended or forgotten."""
        reason = fenced_sentence(self._state.starts.own, holder)
        log.error("%s", reason)
        self._queue.put(Fenced(holder=holder))
        self._fleet.fence(reason)

    def request_health_of_all(self) -> None:
        """Request a health report of all nodes that are up, with the site's present settings."""
        self._effects.add([RequestHealth(node=name) for name in self._nodes_up()])

    def poll(self) -> None:
        """Request a health report of the next nodes, and send each node its sample interval if it has
        changed.
        """
        self._effects.add([RequestHealth(node=name) for name in self._polling.next(self._nodes_up())])
        self._set_sampling()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Increase the rate of samples during the block, because a client displays them.

        The higher rate applies at once. The lower rate returns some time after the block ends.
        """
        with self._sampling.watched():
            self._set_sampling()
            yield

    def _set_sampling(self) -> None:
        self._effects.add(self._sampling.changes(self._nodes_up(), nodes=len(self._state.nodes)))

    def _nodes_up(self) -> list[NodeName]:
        return [name for name in self._state.nodes if self._fleet.is_up(name)]

    def _take_sample(self, name: NodeName, sample: wire.Sample) -> None:
        state = self._state
        if name not in state.nodes:
            return
        before = state.view_cache.blocked(state, name)
        last = state.node_status.readings.get(name)
        reading = state.node_status.readings[name] = to_reading(sample)
        is_changed = state.view_cache.blocked(state, name).keys() != before.keys()
        if is_changed and state.reacts_to_events:
            self._wakeup.now()
        jobs = [job.id for job in state.jobs_on(name) if job.allocation and job.allocation.gpu_count()]
        if reading.stalls:
            self.stalls.set()
        idle = {*reading.idle, *(last.idle if last else ())}
        self._hub.touch(jobs=[*jobs, *(job_id for job_id, _ in sorted(idle))], nodes=[name])
