"""Removes the data of launches that the controller has told the agent to forget.

Output that only the agent keeps stays readable for KEEP_FORGOTTEN_S.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Callable, Collection

from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.linux.folder_removal import remove_tree
from warpdeck_agent.steps.step_registry import StepRegistry
from warpdeck_agent.storage.past_launches import PastLaunches
from warpdeck_agent.storage.scripts import Scripts
from warpdeck_agent.storage.spool import KEEP_FORGOTTEN_S, Folder, LaunchFolder, Spool
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.wire.messages import AskLaunches, Forget, Key, KnownLaunch, KnownLaunches

from .launches import Launches


class Forgetting:
    """Forgets launches. `starting` returns the launches that are being started."""

    def __init__(
        self,
        spool: Spool,
        launches: Launches,
        steps: StepRegistry,
        *,
        ports: Ports,
        scripts: Scripts,
        starting: Callable[[], Collection[Key]],
    ) -> None:
        self._spool = spool
        self._launches = launches
        self._steps = steps
        self._ports = ports
        self._scripts = scripts
        self._starting = starting
        self._background = BackgroundTasks()
        self.past = PastLaunches(spool)

    def forget(self, request: Forget) -> None:
        """Drop a launch when the controller has recorded its end."""
        launch = self._launches.find(request.job_id, request.restarts)
        if launch is None or launch.phase not in ("exited", "lost"):
            return
        if launch.meta.proof:
            self.past.add(KnownLaunch(launch.report(curve=False), launch.meta.record))
        self._launches.remove(launch)
        self._steps.drop_of(launch)
        self._ports.release(launch.key)
        if launch.meta.stdout or not launch.folder.keeps_output():
            self._remove(launch.folder)
            return
        try:
            # Not written durably: after a power failure the output may be removed early, but waiting for the
            # disk would delay other launches.
            launch.folder.write("forgotten", str(time.time()), durable=False)
            launch.folder.release()
        except OSError:  # no space even for that: free some before the next launch needs it
            launch.folder.remove()

    def answer(self, request: AskLaunches) -> KnownLaunches:
        """Return the reports and records of the launches that are still known or were forgotten."""
        found, gone = [], []
        for job_id, restarts in request.launches:
            launch = self._launches.find(job_id, restarts)
            if launch is None:
                gone.append((job_id, restarts))
            else:
                last_step = max(launch.steps, default=-1)
                found.append(KnownLaunch(launch.report(curve=False), launch.meta.record, last_step))
        return KnownLaunches(ask=request.ask, found=[*found, *(self.past.find(gone) if gone else ())])

    def kept_output(self, job_id: int, restarts: int, channel: str) -> str:
        """Return the path of the output file of a forgotten job, or "" if it is gone."""
        folder = self._spool.launch_folder(job_id, restarts)
        path = folder.file("out" if channel == "out" else "err")
        return path if os.path.exists(path) else ""

    def clean(self) -> None:
        """Remove the data of launches that were forgotten long ago."""
        known = {launch.folder.path for launch in self._launches}
        starting = {self._spool.launch_folder(*key).path for key in self._starting()}
        for folder in self._spool.folders():
            if folder.path not in known | starting and _is_old(folder):
                remove_tree(folder.path)
        self._scripts.clean({launch.meta.script for launch in self._launches})

    def _remove(self, folder: LaunchFolder) -> None:
        """Remove the launch's folder and record.

        It runs in a thread, because deleting files with data can take long on a disk, and other launches
        would wait.
        """
        if os.path.lexists(folder.path):  # few launches have a folder
            self._background.start(_remove_folder(folder))
        else:
            folder.release()


async def _remove_folder(folder: LaunchFolder) -> None:
    """Remove the folder, then the record.

    The record goes last, because without it the folder would never be found again.
    """
    await asyncio.get_running_loop().run_in_executor(None, remove_tree, folder.path)
    folder.release()


def _is_old(folder: Folder) -> bool:
    """Return whether the folder's output has been kept for longer than KEEP_FORGOTTEN_S since Forget."""
    try:
        at = float(folder.read("forgotten"))
    except ValueError:
        at = 0.0
    return time.time() - at > KEEP_FORGOTTEN_S
