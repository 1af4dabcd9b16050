"""Notices that the first process of a launch has ended, through the supervisor or without it."""

from __future__ import annotations

from typing import Any, Callable, Dict

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.cpu_time import CpuTime
from warpdeck_agent.linux.process_end_watch import ProcessEndWatch
from warpdeck_agent.wire.messages import Key

from .launches import Launches


class EndDetection:
    """Calls `on_end` for each launch when its first process has ended.

    `on_unknown` gets the supervisor's report about a launch that is not among the launches yet.
    """

    def __init__(
        self,
        launches: Launches,
        on_end: Callable[[LocalLaunch], None],
        *,
        on_unknown: Callable[[Key, Dict[str, Any]], None],
    ) -> None:
        self._launches = launches
        self._on_end = on_end
        self._on_unknown = on_unknown
        self._unsupervised: ProcessEndWatch[LocalLaunch] = ProcessEndWatch(
            on_end,
            pid=lambda launch: launch.folder.pid(),
            lives=lambda launch: launch.processes.first_is_alive(),
        )

    def supervisor_reports(self, key: Key, report: Dict[str, Any]) -> None:
        """Handle the supervisor's report that a launch's first process has ended."""
        launch = self._launches.get(key)
        if launch is None:
            self._on_unknown(key, report)
        else:
            self.first_process_ended(launch, report)

    def first_process_ended(self, launch: LocalLaunch, report: Dict[str, Any]) -> None:
        """Record the usage that the supervisor has reported with the end."""
        system_s = report.get("system_s", 0.0)  # an older supervisor does not report it
        launch.usage.note_first_process(CpuTime(report["cpu_s"], system_s), report["peak_bytes"])
        self._on_end(launch)

    def already_ended(self, launch: LocalLaunch) -> None:
        """Handle a launch if its first process ended while no agent ran."""
        self._on_end(launch)

    def watch(self, launch: LocalLaunch) -> None:
        """Watch a launch that no supervisor watches."""
        self._unsupervised.add(launch)

    def supervisor_lost(self) -> None:
        """Watch all running launches directly after the supervisor was killed. The launches continue."""
        for launch in self._launches.running():
            if launch.meta.role != "hold":
                self.watch(launch)
