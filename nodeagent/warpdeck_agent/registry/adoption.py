"""Adopts the launches of an earlier agent: supervised ones continue, and ended ones are reported."""

from __future__ import annotations

from warpdeck_agent.isolation.containment_handle import containment_name
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.start.login_shell import kill_remaining
from warpdeck_agent.start.node_resources import NodeResources
from warpdeck_agent.steps.step_registry import StepRegistry

from .end_detection import EndDetection
from .ending import Ending
from .launches import Launches
from .limit_enforcement import LimitEnforcement


class Adoption:
    """Adopts launches, one by one, from their folders."""

    def __init__(
        self,
        launches: Launches,
        node: NodeResources,
        steps: StepRegistry,
        *,
        ending: Ending,
        detection: EndDetection,
        limits: LimitEnforcement,
    ) -> None:
        self._launches = launches
        self._node = node
        self._steps = steps
        self._ending = ending
        self._detection = detection
        self._limits = limits

    def adopt(self, launch: LocalLaunch, *, supervised: bool) -> None:
        """Adopt a launch. `supervised`: the supervisor will report its end.

        If the first process of the launch never began, the launch is removed. The controller will send it again.
        """
        is_hold = launch.meta.role == "hold"
        if not supervised and not is_hold and not launch.folder.pid():
            kill_remaining(launch)
            launch.folder.remove()
            return
        self._launches.add(launch)
        self._restore(launch)
        if is_hold and launch.end.cause:
            self._ending.end_hold(launch)
        elif is_hold:
            self._limits.begin(launch)
        elif launch.folder.exit_status() is not None:
            self._detection.already_ended(launch)
        else:
            self._limits.begin(launch)
            if not supervised:
                self._detection.watch(launch)

    def _restore(self, launch: LocalLaunch) -> None:
        """Restore the launch's state, its resources and its steps."""
        launch.processes.may_have_ungrouped = (
            True  # only the earlier agent knew this, so assume that it is true
        )
        name = containment_name(*launch.key)
        self._node.containment.adopt(name, launch.meta.hold.cpus)
        self._node.ipc.enter(launch.meta.uid, name, at_unix=launch.meta.started_at)
        launch.usage.meter.restore(launch.folder)
        self._steps.adopt(launch)
        launch.end.cause = launch.folder.read("cause")
