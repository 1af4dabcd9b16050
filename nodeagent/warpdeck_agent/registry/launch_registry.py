"""The parts of the agent that handle launches, connected to each other.

A launch is idempotent by (job id, restarts): one that arrives a second time is only reported. State that must
outlive the agent is in the spool. `launch_queue` starts launches, `end_detection` notices their ends,
`ending` ends them, `adoption` adopts those of an earlier agent, and `forgetting` removes their data after the
controller's Forget.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional

from warpdeck_agent.code.trees import TreeStore
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.gpu.residual_processes import Report, ResidualProcesses
from warpdeck_agent.isolation.containment import NodeContainment
from warpdeck_agent.isolation.orphans import Orphans
from warpdeck_agent.launch.background_tasks import BackgroundTasks
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.memory_limit import MemoryWatch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.launch.signals import Signals
from warpdeck_agent.linux.own_program import own_path
from warpdeck_agent.start.gpu_sharing import StartGate
from warpdeck_agent.start.launch_setup import LaunchSetup
from warpdeck_agent.start.launch_start import Launcher
from warpdeck_agent.start.node_resources import NodeResources
from warpdeck_agent.steps.step_registry import StepRegistry
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.storage.tmpdirs import TempDirs
from warpdeck_agent.supervisor.starter import SCRIPT, START, TASK_LAUNCHER, TASKS, install
from warpdeck_agent.supervisor.supervisor_link import Supervision, SupervisorLost
from warpdeck_agent.tasks.ports import Ports
from warpdeck_agent.users.ipc_cleanup import IpcCleanup
from warpdeck_agent.users.user_children import UserChildren
from warpdeck_agent.users.user_files import UserFileReader
from warpdeck_agent.wire.messages import Key, Remark

from .adoption import Adoption
from .end_detection import EndDetection
from .ending import Ending
from .forgetting import Forgetting
from .killing import Killing
from .launch_control import LaunchControl
from .launch_queue import LaunchQueue
from .launches import Launches
from .limit_enforcement import LimitEnforcement
from .remaining_processes import RemainingProcesses
from .shared_gpus import SharedGpus
from .teardown import Teardown

LAUNCH_THREADS = 4
"""Starting a process blocks for about a millisecond; more threads than this gain nothing."""


class LaunchRegistry:
    """Everything that handles launches. `tell` sends a message to the controller, if there is one."""

    def __init__(
        self,
        spool: Spool,
        trees: TreeStore,
        tell: Callable[[Any], None],
        *,
        gpus: GpuWatch,
        show_gpus: Report,
    ) -> None:
        def remark(key: Key, text: str) -> None:
            tell(Remark(job_id=key[0], restarts=key[1], text=text))

        self._spool = spool
        self._background = BackgroundTasks()
        self.launches = Launches()
        self.node = node = _resources(spool, gpus, show_gpus)
        pool = ThreadPoolExecutor(LAUNCH_THREADS, thread_name_prefix="launch")
        children, memory, signals = UserChildren(pool), MemoryWatch(pool), Signals(pool)
        notices = Notices(UserChildren(pool), pool)
        self._supervision = Supervision(
            spool.path,
            on_end=lambda key, report: detection.supervisor_reports(key, report),
            on_loss=lambda: detection.supervisor_lost(),
        )
        gate = StartGate(lambda request, text: remark((request.job_id, request.restarts), text))
        launcher = self._build_launcher(trees, gate, pool=pool, children=children)
        self.steps = StepRegistry(
            spool, self.launches.find, tell, node=node, pool=pool, memory=memory, children=children
        )
        self._orphans = self._watch_orphans()
        ending = self._build_ending(pool, tell, notices=notices, remark=remark)
        killing = Killing(signals, notices, ending)
        limits = LimitEnforcement(signals, memory, killing.kill, tell=tell)
        detection = EndDetection(
            self.launches,
            killing.first_process_ended,
            on_unknown=lambda key, report: self.queue.has_ended(key, report),
        )
        self.queue = LaunchQueue(
            launcher, self.launches, tell, on_begin=limits.begin, on_end=detection.first_process_ended
        )
        self.control = LaunchControl(
            self.launches, self.queue, gate, killing=killing, limits=limits, notices=notices
        )
        self.shared_gpus = SharedGpus(
            self.launches, self.queue, gate, control=self.control, notices=notices, remark=remark
        )
        self.forgetting = Forgetting(
            spool,
            self.launches,
            self.steps,
            ports=node.ports,
            scripts=launcher.scripts,
            starting=lambda: self.queue.under_way,
        )
        self._adoption = Adoption(
            self.launches, node, self.steps, ending=ending, detection=detection, limits=limits
        )
        install(spool.file(START), SCRIPT)
        install(spool.file(TASKS), TASK_LAUNCHER)

    def _build_launcher(
        self, trees: TreeStore, gate: StartGate, *, pool: ThreadPoolExecutor, children: UserChildren
    ) -> Launcher:
        own_paths = (self._spool.path, own_path())
        setup = LaunchSetup(self.node, gate, jobs_on_gpu=self.launches.jobs_on_gpu, own_paths=own_paths)
        return Launcher(
            self._spool, trees, setup, self._supervision, ports=self.node.ports, pool=pool, children=children
        )

    def _build_ending(
        self,
        pool: ThreadPoolExecutor,
        tell: Callable[[Any], None],
        *,
        notices: Notices,
        remark: Callable[[Key, str], None],
    ) -> Ending:
        def on_free(launch: LocalLaunch) -> None:
            self.queue.resources_are_free(launch)

        processes = RemainingProcesses(self._orphans)
        teardown = Teardown(pool, self.node, processes, remark=remark, on_free=on_free)
        return Ending(pool, teardown, tell, notices=notices, on_free=on_free)

    async def find_begun(self, job_id: int, restarts: int) -> Optional[LocalLaunch]:
        """Return a launch for a request from one of its processes, or None.

        A process may ask before the supervisor has reported that the launch began. So this waits for that
        report first.
        """
        await self.queue.wait_for_start((job_id, restarts))
        return self.launches.find(job_id, restarts)

    async def adopt(self) -> None:
        """Adopt the launches of an earlier agent: supervised ones continue, and ended ones are reported."""
        supervised = await self._supervision.join()
        for folder in self._spool.launch_folders():
            launch = LocalLaunch(folder, folder.meta(), agent=self._spool.identity)
            self._adoption.adopt(launch, supervised=launch.key in supervised)
        self.forgetting.clean()
        self._background.start(self._prepare_supervisor())
        metas = [launch.meta for launch in self.launches]
        self.node.containment.clear(keep={group for meta in metas for group in meta.hold.groups})
        if self._orphans is not None:
            self._background.start(self._orphans.run())
        kept = {folder for meta in metas for folder in meta.folders()}
        asyncio.get_running_loop().run_in_executor(None, self.node.tempdirs.clear, kept)

    def close(self) -> None:
        """Remove all temporary files and cgroups of the agent that running jobs do not need."""
        self.node.containment.close()
        self.node.tempdirs.empty_tmpdir_pool()

    async def _prepare_supervisor(self) -> None:
        """Start the supervisor early, so that the first launch need not wait for it.

        If that fails, the first launch gets the error.
        """
        with contextlib.suppress(SupervisorLost):
            await self._supervision.prepare()

    def _watch_orphans(self) -> Optional[Orphans]:
        """Return the watcher of orphaned processes, or None if cgroups hold jobs together."""
        if self.node.containment.groups_jobs:
            return None
        return Orphans(
            self._spool.identity,
            self.launches.running_uids,
            job_tags=self.launches.job_tags,
            supervisor=lambda: self._supervision.pid,
            begins=lambda: self.queue.any_is_under_way,
            helpers=UserFileReader.readers,
        )


def _resources(spool: Spool, gpus: GpuWatch, show_gpus: Report) -> NodeResources:
    return NodeResources(
        containment=NodeContainment(spool.identity),
        tempdirs=TempDirs(spool),
        ipc=IpcCleanup(),
        gpus=gpus,
        residual=ResidualProcesses(gpus, show_gpus),
        ports=Ports(),
    )
